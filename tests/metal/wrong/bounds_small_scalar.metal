// A 64-bit number where the launch gives 32 bits.
// LAUNCH {"kernel": "bounds_small_scalar", "threads": [64], "group_size": [64], "arguments": [{"name": "out", "shape": [64]}, {"name": "n", "dtype": "int32", "value": [7]}]}
#include <metal_stdlib>
using namespace metal;

kernel void bounds_small_scalar(device float* out [[buffer(0)]], constant long& n [[buffer(1)]],
                                uint tid [[thread_position_in_grid]]) {
  out[tid] = n;  // FAULT out of bounds
}
