// No guard for the threads beyond the length.
// LAUNCH {"kernel": "bounds_ragged_edge", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [50], "fill": "arange"}, {"name": "out", "shape": [50]}]}
#include <metal_stdlib>
using namespace metal;

kernel void bounds_ragged_edge(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                               uint tid [[thread_position_in_grid]]) {
  float x = tid < 50 ? a[tid] : 0;
  out[tid] = x * x;  // FAULT out of bounds
}
