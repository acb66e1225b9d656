// Neighbours in 16 bits: each thread also writes the half of the next one.
// LAUNCH {"kernel": "race_half_words", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "dtype": "float16", "shape": [64], "fill": "arange"}, {"name": "out", "dtype": "float16", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void race_half_words(device const half* a [[buffer(0)]], device half* out [[buffer(1)]],
                            uint tid [[thread_index_in_threadgroup]]) {
  threadgroup half tile[65];
  tile[tid] = a[tid];
  tile[tid + 1] = a[tid] * 2;  // FAULT data race
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = tile[tid];
}
