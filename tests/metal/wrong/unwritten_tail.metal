// Only half of the tile is written.
// LAUNCH {"kernel": "unwritten_tail", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void unwritten_tail(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                           uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  if (tid < 32) tile[tid] = a[tid];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = tile[63 - tid];  // FAULT uninitialised group memory
}
