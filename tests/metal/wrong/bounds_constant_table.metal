// An index beyond a table in the source.
// LAUNCH {"kernel": "bounds_constant_table", "threads": [64], "group_size": [64], "arguments": [{"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

constant float table[4] = {1, 2, 4, 8};
kernel void bounds_constant_table(device float* out [[buffer(0)]], uint tid [[thread_position_in_grid]]) {
  out[tid] = table[tid / 8];  // FAULT out of bounds
}
