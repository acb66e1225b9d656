# problem: softmax
# backward: yes
"""A kernel for each way: its own gradient, by torch.autograd.Function."""

import torch
from torch import nn

lib = torch.mps.compile_shader("""
#include <metal_stdlib>
using namespace metal;

kernel void forward_rows(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                         constant long& columns [[buffer(2)]], uint row [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]]) {
  x += row * columns;
  out += row * columns;
  float most = -INFINITY, sum = 0;
  for (long i = lane; i < columns; i += 32) most = max(most, x[i]);
  most = simd_max(most);
  for (long i = lane; i < columns; i += 32) sum += exp(x[i] - most);
  sum = simd_sum(sum);
  for (long i = lane; i < columns; i += 32) out[i] = exp(x[i] - most) / sum;
}

kernel void backward_rows(device float* grad [[buffer(0)]], device const float* out [[buffer(1)]],
                          device const float* upstream [[buffer(2)]], constant long& columns [[buffer(3)]],
                          uint row [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  out += row * columns;
  upstream += row * columns;
  grad += row * columns;
  float dot = 0;
  for (long i = lane; i < columns; i += 32) dot = fma(out[i], upstream[i], dot);
  dot = simd_sum(dot);
  for (long i = lane; i < columns; i += 32) grad[i] = out[i] * (upstream[i] - dot);
}
""")


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        lib.forward_rows(out, x, x.shape[1], threads=(32 * x.shape[0],), group_size=(32,))
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, *upstreams):
        (out,) = ctx.saved_tensors
        (upstream,) = upstreams
        grad = torch.empty(out.shape, device="mps")
        rows, columns = out.shape
        lib.backward_rows(grad, out, upstream.contiguous(), columns, threads=(32 * rows,), group_size=(32,))
        return grad


class ModelNew(nn.Module):
    def forward(self, x):
        return Softmax.apply(x)
