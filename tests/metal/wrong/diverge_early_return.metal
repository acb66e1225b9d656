// Threads beyond the length return before the barrier.
// LAUNCH {"kernel": "diverge_early_return", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [50], "fill": "arange"}, {"name": "out", "shape": [50]}]}
#include <metal_stdlib>
using namespace metal;

kernel void diverge_early_return(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                                 uint tid [[thread_index_in_threadgroup]]) {
  if (tid >= 32) return;
  threadgroup float tile[64];
  tile[tid] = a[tid];
  threadgroup_barrier(mem_flags::mem_threadgroup);  // FAULT barrier divergence
  out[tid] = tile[31 - tid];
}
