// A reduction tree whose steps are not separated.
// LAUNCH {"kernel": "race_tree_without_barrier", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void race_tree_without_barrier(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                                      uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float part[64];
  part[tid] = a[tid];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint half_size = 32; half_size > 0; half_size /= 2) {
    if (tid < half_size) part[tid] += part[tid + half_size];  // FAULT data race
  }
  out[tid] = part[0];
}
