// One thread writes what the others read at once.
// LAUNCH {"kernel": "race_broadcast", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void race_broadcast(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                           uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float factor;
  if (tid == 40) factor = a[7];  // FAULT data race
  out[tid] = a[tid] * factor;
}
