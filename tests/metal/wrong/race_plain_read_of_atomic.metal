// A plain read beside atomic updates.
// LAUNCH {"kernel": "race_plain_read_of_atomic", "threads": [64], "group_size": [64], "arguments": [{"name": "a", "shape": [64], "fill": "arange"}, {"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void race_plain_read_of_atomic(device const float* a [[buffer(0)]], device float* out [[buffer(1)]],
                                      uint tid [[thread_index_in_threadgroup]]) {
  threadgroup atomic_int found;
  if (tid == 0) atomic_store_explicit(&found, 0, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (a[tid] > 10) atomic_fetch_add_explicit(&found, 1, memory_order_relaxed);
  out[tid] = *(threadgroup int*)&found;  // FAULT data race
}
