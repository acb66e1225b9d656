// Reads a buffer of 16-bit floats as 32-bit ones.
// LAUNCH {"kernel": "bounds_wrong_type", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "dtype": "float16", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void bounds_wrong_type(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                              uint tid [[thread_position_in_grid]]) {
  out[tid] = a[tid];  // FAULT out of bounds
}
