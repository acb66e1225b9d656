# problem: softmax
# rejected: RUNTIME_ERROR by kernel_faults, RUNTIME_ERROR by runs
# says: no barrier lies between
"""A barrier that only the threads of one simdgroup reach."""

import torch
from torch import nn

lib = torch.mps.compile_shader("""
#include <metal_stdlib>
using namespace metal;

kernel void softmax(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                    constant long& columns [[buffer(2)]],
                    uint row [[threadgroup_position_in_grid]], uint thread_in_group [[thread_position_in_threadgroup]],
                    uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float partial[4];
  device const float* values = x + row * columns;
  float most = -INFINITY;
  for (long i = thread_in_group; i < columns; i += 128) most = max(most, values[i]);
  most = simd_max(most);
  if (lane == 0) partial[simd] = most;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  most = max(max(partial[0], partial[1]), max(partial[2], partial[3]));
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0;
  for (long i = thread_in_group; i < columns; i += 128) sum += exp(values[i] - most);
  sum = simd_sum(sum);
  if (lane == 0) partial[simd] = sum;
  if (simd == 0) threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = partial[0] + partial[1] + partial[2] + partial[3];
  for (long i = thread_in_group; i < columns; i += 128) out[row * columns + i] = exp(values[i] - most) / sum;
}
""")


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, columns = x.shape
        lib.softmax(out, x, columns, threads=(128 * rows,), group_size=(128,))
        return out
