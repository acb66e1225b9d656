// A pair is stored at an odd place.
// LAUNCH {"kernel": "misaligned_store", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [200]}]}
#include <metal_stdlib>
using namespace metal;

kernel void misaligned_store(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                             uint tid [[thread_position_in_grid]]) {
  *(device float2*)(out + 1 + tid * 2) = float2(a[tid], 1);  // FAULT misaligned access
}
