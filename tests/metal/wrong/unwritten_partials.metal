// Partial sums of simdgroups that do not exist.
// LAUNCH {"kernel": "unwritten_partials", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void unwritten_partials(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                               uint tid [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                               uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float part[32];
  float sum = simd_sum(a[tid]);
  if (lane == 0) part[simd] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = simd_sum(part[lane]);  // FAULT uninitialised group memory
}
