// A cast takes the const away.
// LAUNCH {"kernel": "constant_written", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void constant_written(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                             uint tid [[thread_position_in_grid]]) {
  out[tid] = a[tid];
  ((device float*)a)[tid] = 0;  // FAULT write to read-only memory
}
