// An index from the data that nobody checked.
// LAUNCH {"kernel": "bounds_wild_index", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "index", "dtype": "int32", "shape": [64], "fill": 1000000000}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void bounds_wild_index(device const float* a [[buffer(0)]], device const int* index [[buffer(1)]],
                              device float* out [[buffer(2)]], uint tid [[thread_position_in_grid]]) {
  out[tid] = a[long(index[tid]) * 64];  // FAULT out of bounds
}
