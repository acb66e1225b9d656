// One kernel for each part of the shim; tests/metal/test_shim.py compares them with NumPy.
#include <metal_stdlib>
#include <metal_logging>
using namespace metal;

kernel void unary(device float* out, device const float* x, constant int& n, uint i [[thread_position_in_grid]]) {
  float v = x[i];
  int at = i;
  out[at] = exp(v), at += n;
  out[at] = log(fabs(v) + 1.0), at += n;
  out[at] = sin(v), at += n;
  out[at] = tanh(v), at += n;
  out[at] = rsqrt(v * v + 1), at += n;
  out[at] = fract(v), at += n;
  out[at] = rint(v), at += n;
  out[at] = sinpi(v), at += n;
  out[at] = cospi(v), at += n;
  out[at] = sign(v), at += n;
  out[at] = saturate(v), at += n;
  out[at] = exp10(v * 0.25), at += n;
  out[at] = precise::exp2(v), at += n;
  out[at] = fast::cos(v), at += n;
  out[at] = asinh(v), at += n;
}

kernel void binary(device float* out, device const float* x, device const float* y, constant int& n,
                   uint i [[thread_position_in_grid]]) {
  float a = x[i], b = y[i];
  int at = i;
  out[at] = atan2(a, b), at += n;
  out[at] = pow(fabs(a), b), at += n;
  out[at] = fmod(a, b), at += n;
  out[at] = copysign(a, b), at += n;
  out[at] = mix(a, b, 0.25), at += n;
  out[at] = step(a, b), at += n;
  out[at] = max(a, NAN) + min(NAN, b), at += n;
  out[at] = fma(a, b, 1.0), at += n;
  out[at] = clamp(a, -0.5, 0.5), at += n;
  out[at] = median3(a, b, 0.0f), at += n;
}

kernel void integer(device uint* out, device const uint* x, uint i [[thread_position_in_grid]]) {
  uint v = x[i];
  device uint* o = out + i * 12;
  o[0] = clz(v);
  o[1] = ctz(v);
  o[2] = popcount(v);
  o[3] = reverse_bits(v);
  o[4] = rotate(v, 7u);
  o[5] = mulhi(v, 0x9E3779B9u);
  o[6] = extract_bits(v, 5, 9);
  o[7] = insert_bits(v, 0x5u, 4, 3);
  o[8] = addsat(v, 0xF0000000u);
  o[9] = absdiff(v, 1000u);
  o[10] = as_type<uint>(extract_bits(int(v), 5, 9));
  o[11] = madhi(v, v, 1u);
}

kernel void vectors(device float4* out, device const float4* x, device const packed_float3* p, constant float4& c,
                    constant float3x3& m, uint i [[thread_position_in_grid]]) {
  float4 v = x[i];
  float4 w = {1.0, 2.0};
  w.zw = v.yx;
  v.x += dot(v, c);
  out[i * 8] = v * 2 + w;
  out[i * 8 + 1] = select(v, w, v > w);
  out[i * 8 + 2] = float4(float3(p[i]), length(v.xyz));
  out[i * 8 + 3] = float4(m * v.xyz, determinant(m));
  out[i * 8 + 4] = float4(cross(v.xyz, c.zyx), all(v == v));
  out[i * 8 + 5] = i & 1 ? x[i] : c;
  out[i * 8 + 6] = float4(half4(v)) + float4(as_type<uchar4>(0x04030201));
  out[i * 8 + 7] = normalize(v) - reflect(v, c);
  out[i * 8 + 7].rg *= 2.0;
}

kernel void small_floats(device half* h, device bfloat* b, device const float* x, uint i [[thread_position_in_grid]]) {
  h[2 * i] = half(x[i]) * 1.5h;
  h[2 * i + 1] = static_cast<half>(static_cast<bfloat>(x[i]));
  b[2 * i] = bfloat(x[i]) + bfloat(1.0);
  b[2 * i + 1] = exp(bfloat(x[i]));
}

kernel void atomics(device atomic_int* sum, device atomic_uint* most, device atomic_float* real, device atomic_uint* counts,
                    device const uint* x, uint i [[thread_position_in_grid]], uint l [[thread_index_in_threadgroup]]) {
  threadgroup atomic_uint seen;
  if (l == 0) atomic_store_explicit(&seen, 0, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(sum, -1, memory_order_relaxed);
  atomic_fetch_max_explicit(most, x[i], memory_order_relaxed);
  atomic_fetch_add_explicit(real, 0.5, memory_order_relaxed);
  atomic_fetch_add_explicit(&seen, 1u, memory_order_relaxed);
  uint expected = atomic_load_explicit(counts, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(counts, &expected, expected + 2, memory_order_relaxed, memory_order_relaxed)) {
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (l == 0) atomic_fetch_add_explicit(&counts[1], atomic_load_explicit(&seen, memory_order_relaxed), memory_order_relaxed);
}

kernel void simd(device int* out, device const int* x, uint i [[thread_position_in_grid]], ushort lane [[thread_index_in_simdgroup]]) {
  int v = x[i];
  device int* o = out + i * 16;
  o[0] = simd_sum(v);
  o[1] = simd_max(v);
  o[2] = simd_prefix_exclusive_sum(v);
  o[3] = simd_prefix_inclusive_sum(v);
  o[4] = simd_shuffle_xor(v, 5);
  o[5] = simd_shuffle_down(v, 3);
  o[6] = simd_shuffle_up(v, 3);
  o[7] = simd_broadcast(v, 7);
  o[8] = (int)(simd_vote::vote_t)simd_ballot(v > 0);
  o[9] = quad_sum(v);
  o[10] = quad_broadcast(v, 2);
  o[11] = simd_shuffle_and_fill_up(v, -1, 2);
  o[12] = simd_shuffle_rotate_down(v, 1);
  o[13] = simd_xor(v);
  o[14] = simd_is_first();
  o[15] = simd_any(v > 1000) + 2 * simd_all(v > -1000);
}

kernel void matrices(device float* out, device const half* a, device const float* b, ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup float tile[64];
  simdgroup_half8x8 x;
  simdgroup_float8x8 y, z = simdgroup_float8x8(2.0);
  simdgroup_load(x, a, 8);
  simdgroup_load(y, b, 16, ulong2(8, 1), true);
  simdgroup_multiply_accumulate(z, x, y, z);
  simdgroup_store(z, tile, 8);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  out[lane] = tile[lane];
  out[lane + 32] = tile[lane + 32];
  out[lane + 64] = z.thread_elements()[0];
}

constant bool wide [[function_constant(0)]];
constant float scale [[function_constant(1)]];
constant float2 pair_of [[function_constant(2)]];
kernel void constants(device float* out) {
  out[0] = wide ? 4 : 2;
  out[1] = is_function_constant_defined(scale) ? scale : -1.0;
  out[2] = pair_of.x + pair_of.y;
}

struct Node {
  device float* values;
  constant int* counts;
};
kernel void pointers(device float* out, constant Node& node, device const ulong* table, uint i [[thread_position_in_grid]]) {
  out[i] = node.values[i] * node.counts[0];
  out[i + 4] = ((device const float*)table[1])[i];
}

kernel void copies(device float* out, device const float* x, threadgroup float* stage [[threadgroup(0)]],
                   ushort lane [[thread_index_in_simdgroup]]) {
  simdgroup_event event;
  event.async_copy(stage, x, 40);
  simdgroup_event::wait(1, &event);
  out[lane] = stage[39 - lane];
}

constexpr constant uint table[4] = {1, 3, 5, 7};
kernel void edges(device uint* out, uint3 g [[thread_position_in_grid]], uint3 size [[threads_per_threadgroup]],
                  uint3 whole [[dispatch_threads_per_threadgroup]], uint3 grid [[threads_per_grid]], uint quad [[quadgroup_index_in_threadgroup]]) {
  device uint* o = out + ((g.z * grid.y + g.y) * grid.x + g.x) * 4;
  o[0] = size.x * 100 + size.y;
  o[1] = whole.x * 100 + whole.y;
  o[2] = table[g.x & 3];
  o[3] = quad;
}

kernel void says(device int* out, uint i [[thread_position_in_grid]]) {
  if (i == 1) os_log_default.log("thread %u: %d, %.2f, %s", i, -5, 1.5f, "text");
  out[i] = 1;
}
