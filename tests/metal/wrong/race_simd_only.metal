// A simdgroup barrier orders the simdgroup, and the two simdgroups exchange.
// LAUNCH {"kernel": "race_simd_only", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void race_simd_only(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                           uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  tile[tid] = a[tid];  // FAULT data race
  simdgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = tile[63 - tid];
}
