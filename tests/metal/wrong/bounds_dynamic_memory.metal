// The launch gives less threadgroup memory than the kernel uses.
// LAUNCH {"kernel": "bounds_dynamic_memory", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}], "group_memory": {"0": 128}}
#include <metal_stdlib>
using namespace metal;

kernel void bounds_dynamic_memory(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                                  threadgroup float* tile [[threadgroup(0)]], uint tid [[thread_index_in_threadgroup]]) {
  tile[tid] = a[tid];  // FAULT out of bounds
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = tile[tid];  // FAULT out of bounds
}
