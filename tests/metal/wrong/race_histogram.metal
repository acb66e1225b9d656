// A histogram without atomics.
// LAUNCH {"kernel": "race_histogram", "threads": [256], "group_size": [64], "arguments": [{"name": "keys", "dtype": "int32", "shape": [256], "fill": "arange"}, {"name": "bins", "dtype": "int32", "shape": [16]}]}
#include <metal_stdlib>
using namespace metal;

kernel void race_histogram(device const int* keys [[buffer(0)]], device int* bins [[buffer(1)]],
                           uint tid [[thread_position_in_grid]]) {
  bins[keys[tid] % 16]++;  // FAULT data race
}
