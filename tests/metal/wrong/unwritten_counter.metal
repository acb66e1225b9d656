// The counter starts with whatever was there.
// LAUNCH {"kernel": "unwritten_counter", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void unwritten_counter(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                              uint tid [[thread_index_in_threadgroup]]) {
  threadgroup atomic_int found;
  if (a[tid] > 10) atomic_fetch_add_explicit(&found, 1, memory_order_relaxed);  // FAULT uninitialised group memory
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = atomic_load_explicit(&found, memory_order_relaxed);
}
