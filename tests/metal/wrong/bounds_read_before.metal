// Reads one element before the first.
// LAUNCH {"kernel": "bounds_read_before", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void bounds_read_before(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                               uint tid [[thread_position_in_grid]]) {
  out[tid] = a[int(tid) - 1];  // FAULT out of bounds
}
