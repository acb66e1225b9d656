// A vector of four at the end of a length that is no multiple of four.
// LAUNCH {"kernel": "bounds_vector_edge", "threads": [16], "group_size": [16], "arguments": [{"name": "a", "shape": [62], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void bounds_vector_edge(device const float4* a [[buffer(0)]], device float4* out [[buffer(1)]],
                               uint tid [[thread_position_in_grid]]) {
  out[tid] = a[tid];  // FAULT out of bounds
}
