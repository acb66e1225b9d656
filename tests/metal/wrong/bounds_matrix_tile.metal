// A simdgroup matrix that reaches beyond the rows.
// LAUNCH {"kernel": "bounds_matrix_tile", "threads": [32], "group_size": [32], "arguments": [{"name": "a", "shape": [7, 8], "fill": "arange"}, {"name": "out", "shape": [8, 8]}]}
#include <metal_stdlib>
using namespace metal;

kernel void bounds_matrix_tile(device const float* a [[buffer(0)]], device float* out [[buffer(1)]]) {
  simdgroup_float8x8 m;
  simdgroup_load(m, a, 8);  // FAULT out of bounds
  simdgroup_store(m, out, 8);
}
