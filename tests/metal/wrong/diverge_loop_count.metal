// Threads pass the loop, and its barrier, a different number of times.
// LAUNCH {"kernel": "diverge_loop_count", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void diverge_loop_count(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                               uint tid [[thread_index_in_threadgroup]]) {
  float sum = 0;
  for (uint i = 0; i <= tid / 32; i++) {
    sum += a[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);  // FAULT barrier divergence
  }
  out[tid] = sum;
}
