// Atomics are no safer.
// LAUNCH {"kernel": "bounds_atomic", "threads": [64], "group_size": [64], "arguments": [{"name": "bins", "dtype": "int32", "shape": [16]}]}
#include <metal_stdlib>
using namespace metal;

kernel void bounds_atomic(device atomic_int* bins [[buffer(0)]], uint tid [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(&bins[tid % 17], 1, memory_order_relaxed);  // FAULT out of bounds
}
