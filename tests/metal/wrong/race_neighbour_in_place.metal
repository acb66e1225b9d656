// Works in place on what its neighbour reads.
// LAUNCH {"kernel": "race_neighbour_in_place", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [65], "fill": "arange"}]}
#include <metal_stdlib>
using namespace metal;

kernel void race_neighbour_in_place(device float* a [[buffer(0)]], uint tid [[thread_position_in_grid]]) {
  a[tid] = a[tid + 1];  // FAULT data race
}
