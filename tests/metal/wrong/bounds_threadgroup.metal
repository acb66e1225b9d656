// One element too few for the halo.
// LAUNCH {"kernel": "bounds_threadgroup", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void bounds_threadgroup(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                               uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float tile[65];
  threadgroup float other[64];
  tile[tid + 1] = a[tid];
  other[tid] = 2;
  if (tid == 0) tile[0] = tile[65] = 0;  // FAULT out of bounds
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = tile[tid] + other[tid];
}
