// A vector of four at an address that is no multiple of 16.
// LAUNCH {"kernel": "misaligned_vector", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [80], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void misaligned_vector(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                              uint tid [[thread_position_in_grid]]) {
  float4 v = *(device const float4*)(a + tid);  // FAULT misaligned access
  out[tid] = v.x + v.w;
}
