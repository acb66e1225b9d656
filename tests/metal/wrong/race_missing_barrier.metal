// No barrier between the writes of all threads and the reads of others.
// LAUNCH {"kernel": "race_missing_barrier", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void race_missing_barrier(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                                 uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  tile[tid] = a[tid];  // FAULT data race
  out[tid] = tile[63 - tid];
}
