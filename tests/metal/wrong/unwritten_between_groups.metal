// What the last group left in threadgroup memory.
// LAUNCH {"kernel": "unwritten_between_groups", "threads": [64], "group_size": [32], "arguments": [{"name": "out", "shape": [64]}]}
#include <metal_stdlib>
using namespace metal;

kernel void unwritten_between_groups(device float* out [[buffer(0)]], uint tid [[thread_index_in_threadgroup]],
                                     uint group [[threadgroup_position_in_grid]]) {
  threadgroup float last[32];
  if (group == 0) last[tid] = tid;
  out[group * 32 + tid] = last[tid];  // FAULT uninitialised group memory
}
