// Threads of many groups add to one number.
// LAUNCH {"kernel": "race_between_groups", "threads": [256], "group_size": [64], "arguments": [{"name": "a", "shape": [256], "fill": "arange"}, {"name": "out", "shape": [1]}]}
#include <metal_stdlib>
using namespace metal;

kernel void race_between_groups(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                                uint tid [[thread_position_in_grid]]) {
  float sum = simd_sum(a[tid]);
  if (tid % 64 == 0) out[0] += sum;  // FAULT data race
}
