// The tile is filled again while slower threads still read the last one.
// LAUNCH {"kernel": "race_reused_tile", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [256], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void race_reused_tile(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                             uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  float sum = 0;
  for (uint step = 0; step < 4; step++) {
    tile[tid] = a[step * 64 + tid];  // FAULT data race
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = 0; i < 64; i++) sum += tile[i];
  }
  out[tid] = sum;
}
