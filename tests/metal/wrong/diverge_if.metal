// A barrier that only one simdgroup reaches.
// LAUNCH {"kernel": "diverge_if", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void diverge_if(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                       uint tid [[thread_index_in_threadgroup]]) {
  if (tid < 32) threadgroup_barrier(mem_flags::mem_threadgroup);  // FAULT barrier divergence
  out[tid] = a[tid];
}
