// The same in threadgroup memory whose size the launch gives.
// LAUNCH {"kernel": "race_dynamic_memory", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}], "group_memory": {"0": 256}}
#include <metal_stdlib>
using namespace metal;

kernel void race_dynamic_memory(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                                threadgroup float* tile [[threadgroup(0)]], uint tid [[thread_index_in_threadgroup]]) {
  tile[tid] = a[tid];  // FAULT data race
  out[tid] = tile[63 - tid];
}
