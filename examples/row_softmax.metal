// Softmax of each row: one threadgroup a row, partial results through simdgroups and threadgroup memory.
#include <metal_stdlib>
using namespace metal;

// x, out: (rows, columns) float32
kernel void row_softmax(device const float* x [[buffer(0)]],
                        device float* out [[buffer(1)]],
                        constant int& columns [[buffer(2)]],
                        uint row [[threadgroup_position_in_grid]],
                        uint tid [[thread_index_in_threadgroup]],
                        uint threads [[threads_per_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]],
                        uint simd [[simdgroup_index_in_threadgroup]],
                        uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  x += row * columns;
  out += row * columns;

  float largest = -INFINITY;
  for (int i = tid; i < columns; i += threads) largest = max(largest, x[i]);
  largest = simd_max(largest);
  if (lane == 0) partial[simd] = largest;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  largest = simd_max(lane < simds ? partial[lane] : -INFINITY);
  threadgroup_barrier(mem_flags::mem_threadgroup);

  float sum = 0;
  for (int i = tid; i < columns; i += threads) sum += exp(x[i] - largest);
  sum = simd_sum(sum);
  if (lane == 0) partial[simd] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = simd_sum(lane < simds ? partial[lane] : 0.0f);

  for (int i = tid; i < columns; i += threads) out[i] = exp(x[i] - largest) / sum;
}
