// Each group writes one element of the next group.
// LAUNCH {"kernel": "race_overlapping_tiles", "threads": [256], "group_size": [64], "arguments": [{"name": "out", "shape": [257]}]}
#include <metal_stdlib>
using namespace metal;

kernel void race_overlapping_tiles(device float* out [[buffer(0)]], uint tid [[thread_position_in_grid]],
                                   uint group [[threadgroup_position_in_grid]]) {
  out[tid] = group;  // FAULT data race
  if (tid % 64 == 63) out[tid + 1] = -1.0f - group;
}
