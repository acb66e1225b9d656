// A barrier with mem_none orders no memory at all.
// LAUNCH {"kernel": "unfenced_no_flag", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void unfenced_no_flag(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                             uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  tile[tid] = a[tid];
  threadgroup_barrier(mem_flags::mem_none);
  out[tid] = tile[63 - tid];  // FAULT barrier without fence
}
