// All threads count in one plain variable.
// LAUNCH {"kernel": "race_shared_counter", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void race_shared_counter(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                                uint tid [[thread_index_in_threadgroup]]) {
  threadgroup int found;
  if (tid == 0) found = 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (a[tid] > 10) found += 1;  // FAULT data race
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = found;
}
