// The barrier orders device memory, and what is shared is threadgroup memory.
// LAUNCH {"kernel": "unfenced_wrong_flag", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void unfenced_wrong_flag(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                                uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  tile[tid] = a[tid];
  threadgroup_barrier(mem_flags::mem_device);
  out[tid] = tile[63 - tid];  // FAULT barrier without fence
}
