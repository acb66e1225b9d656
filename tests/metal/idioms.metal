// Idioms of published and of generated kernels: they must compile, and are not run (tests/metal/test_shim.py).
#include <metal_stdlib>
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>
#include <simd/simd.h>
using namespace metal;
constant constexpr float kEps = 1e-5;
constant float W[2][2] = {{1.0, 2.0}, {3.0, 4.0}};
constant float4 C4 = float4(1.0, 2, 3, 4);
static constant constexpr const int TILE = 16;
enum class Op : uchar { Add, Mul };
struct Params { uint n; float alpha; packed_float3 origin; uint2 dims; };
struct __attribute__((packed)) Q4 { half d; uchar qs[16]; };
template <typename T, int N> struct Tile { T v[N]; thread T& operator[](int i) { return v[i]; } const thread T& operator[](int i) const { return v[i]; } };
template <typename T> using T4 = vec<T, 4>;
typedef vec<float, 4> f4;
static inline float gelu(float x) { return 0.5 * x * (1.0 + precise::tanh(0.7978845608 * (x + 0.044715 * x * x * x))); }
inline float4 load4(device const float* p) { return *(device const float4*)p; }
inline float4 load4(threadgroup const float* p) { return *reinterpret_cast<threadgroup const float4*>(p); }
inline void store(thread float4& v, device float* o) { *reinterpret_cast<device float4*>(o) = v; }
void fill(threadgroup float (&tile)[16][17], uint2 t, float x) { tile[t.y][t.x] = x; }
void fill2(threadgroup float tile[16][17], uint2 t, float x) { tile[t.y][t.x] += x; }
float red(threadgroup float* s, uint t) { return s[t]; }
template <typename F> float apply(F f, float x) { return f(x); }
kernel void a(device float* x [[buffer(0)]], constant Params& p [[buffer(1)]], device packed_float3* pos [[buffer(2)]], device atomic_uint* cnt [[buffer(3)]],
  volatile device atomic_int* ai [[buffer(4)]], device const Q4* q [[buffer(5)]], device half* h [[buffer(6)]],
  uint3 gid [[thread_position_in_grid]], ushort2 lid [[thread_position_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]], uint2 tgs [[threads_per_threadgroup]]) {
  if (any(gid.xy >= p.dims)) return;
  threadgroup float tile[16][17];
  threadgroup float flat[64];
  uint i = gid.y * p.dims.x + gid.x;
  fill(tile, uint2(lid), x[i]);
  fill2(tile, uint2(lid), 1);
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
  flat[i % 64] = red(flat, i & 63) + tile[lid.x][lid.y];
  float4 v = load4(x + 4 * i) + load4(flat);
  store(v, x);
  float3 f = pos[i];
  f += pos[i];
  f = pos[i] * 2.0f + p.origin;
  pos[i] = f;
  f.xy += 1;
  f.z *= 2;
  float len = length(pos[i]) + distance(f, float3(p.origin)) + length_squared(f);
  half2 hh = half2(v.xy);
  hh.xy = hh.yx;
  h[i] = hh.x + 0.5h;
  h[i+1] = half(v.w) * h[i];
  float m = max(0.0, len);
  m = max(m, 0.0f) + min(m, 1.0) + clamp(m, 0.0, 1.0) + pow(m, 2.0) + fast::exp(m);
  m = m < 0.0 ? 0.0 : m;
  m += isnan(m) || isinf(m) ? -FLT_MAX : metal::numeric_limits<float>::infinity();
  float s, c;
  s = sincos(m, c);
  float ip;
  s += modf(m, ip) + ip;
  int e;
  s += frexp(m, e) + e;
  atomic_fetch_add_explicit(cnt, 1, memory_order_relaxed);
  atomic_fetch_sub_explicit(ai, 1, memory_order_relaxed);
  atomic_fetch_add_explicit((device atomic_uint*)&cnt[1], 2u, memory_order_relaxed);
  atomic_store_explicit(cnt + 2, 0, memory_order_relaxed);
  auto lam = [&](float y) { return y * p.alpha + kEps;
  };
  s += lam(m) + apply([](float y) { return y + 1.0; }, m) + gelu(m);
  Tile<float, 4> t;
  for (int k = 0; k < 4; ++k) t[k] = v[k];
  float acc[4] = {0};
  float4 accs[2] = {float4(0), 1};
  #pragma unroll
  for (int k = 0; k < 4; ++k) acc[k] += t[k] * W[k & 1][k >> 1];
  #pragma clang loop unroll(full)
  for (ushort k = 0; k < 2; k++) accs[k] = fma(accs[k], C4, v);
  Op op = i & 1 ? Op::Add : Op::Mul;
  switch (op) { case Op::Add: s += 1;
  break;
  case Op::Mul: s *= 2;
  break;
  default: break;
  }
  float4x4 M = float4x4(1.0);
  M[0][1] = 2;
  v = M * v;
  float3x3 R = float3x3(f, f, f);
  f = R * f;
  f = transpose(R) * f;
  float2x2 R2(1, 2, 3, 4);
  uint bits = as_type<uint>(s);
  s = as_type<float>(0xff800000);
  half2 pk = as_type<half2>(bits);
  uint w = popcount(bits) + clz(bits) + extract_bits(bits, 4, 4) + (uint)q[i].qs[0];
  s += q[i].d * ((w & 0xF) - 8.0f);
  float4 sh = simd_shuffle_down(v, 1);
  sh += simd_broadcast(v, 0);
  s += simd_sum(s) + simd_max(s) + simd_prefix_exclusive_sum(s);
  T4<half> th = T4<half>(v);
  f4 zz = (f4)v;
  zz = float4(th);
  vec<float, 2> two = v.zw;
  int4 iv = int4(v);
  iv = iv << 2;
  iv &= 3;
  bool4 bm = v > 0.0;
  v = select(v, zz, bm);
  v = bm.x ? v : zz;
  x[i] = s + c + two.x + iv.x + accs[0].x + accs[1][2] + acc[2] + sh.w + (float)pk.y + dot(f, cross(f, normalize(f))) + R2[1].y;
}
template <typename T, uint BM, uint BN> [[kernel]] [[max_total_threads_per_threadgroup(256)]] void gemm(device const T* A, device const T* B, device T* Cc, constant uint3& mnk, uint2 tg [[threadgroup_position_in_grid]], uint sg [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]], threadgroup T* dyn [[threadgroup(0)]]) {
  threadgroup T As[BM * 8];
  threadgroup T Bs[8 * BN];
  simdgroup_matrix<T, 8, 8> a, b;
  simdgroup_matrix<float, 8, 8> acc[2][2];
  for (uint i = 0; i < 2; ++i) for (uint j = 0; j < 2; ++j) acc[i][j] = make_filled_simdgroup_matrix<float, 8>(0.0f);
  simdgroup_load(a, As, 8);
  simdgroup_load(b, B + tg.x, mnk.y, 0, true);
  simdgroup_load(b, Bs, BN, ulong2(0, 0));
  simdgroup_multiply_accumulate(acc[0][0], a, b, acc[0][0]);
  simdgroup_barrier(mem_flags::mem_none);
  thread auto& el = acc[0][0].thread_elements();
  el[0] *= 2.0;
  simdgroup_float8x8 o(0);
  simdgroup_multiply(o, a, b);
  simdgroup_store(acc[0][0], (device float*)Cc, mnk.y);
  if (lane == 0) Cc[sg] = dyn[0];
}
template [[host_name("gemm_f32")]] [[kernel]] void gemm<float, 32, 32>(device const float*, device const float*, device float*, constant uint3&, uint2, uint, uint, threadgroup float*);
template [[host_name("gemm_f16")]] [[kernel]] void gemm<half, 32, 32>(device const half*, device const half*, device half*, constant uint3&, uint2, uint, uint, threadgroup half*);
struct Args { device float* a; constant float* b [[id(1)]]; uint n; };
kernel void argbuf(constant Args& args [[buffer(0)]], device Args* more [[buffer(1)]], uint i [[thread_position_in_grid]]) { args.a[i] = args.b[i] + more->n;
  }
struct Cplx { float re, im; Cplx operator*(Cplx o) const { return {re * o.re - im * o.im, re * o.im + im * o.re}; } };
kernel void cplx(device Cplx* z, constant Cplx& k, uint i [[thread_position_in_grid]]) { z[i] = z[i] * k;
  Cplx c = k;
  z[i + 1] = c * z[i];
  thread Cplx& r = c;
  r.re = 1;
  }
kernel void bf(device bfloat* b, device const bfloat4* b4, uint i [[thread_position_in_grid]]) { bfloat4 v = b4[i];
  v += bfloat4(1.0);
  b[i] = v.x + bfloat(2.0);
  float f = b[i];
  b[i] = bfloat(f * 2);
  b[i + 1] = (bfloat)max(f, 0.0f);
  half hh = half(f);
  b[i] += static_cast<bfloat>(hh);
  b[i] = max(b[i], b[i + 1]);
  }
kernel void ints(device int* o, device const char4* c, device uchar* u, device short2* s, constant int& n, uint i [[thread_position_in_grid]], uint n_threads [[threads_per_grid]]) {
  for (uint k = i; k < uint(n); k += n_threads) { int4 w = int4(c[k]);
  o[k] = w.x + w.y * w.z - w.w;
  o[k] += dot(float4(c[k]), float4(1));
  o[k] = min(o[k], n);
  o[k] = max(o[k], 0);
  u[k] = uchar(clamp(o[k], 0, 255));
  s[k] = short2(w.xy);
  s[k].x = abs(s[k].y);
  o[k] = mad24(o[k], 2, 1) + mul24(o[k], 3);
  }
  uint64_t big = (uint64_t)i * 3;
  ulong hi = mulhi(big, 3ul);
  o[0] += int(hi) + select(1, 2, i > 3) + (i > 2u && n > 3) + rotate(i, 3u);
  ushort us = i;
  us >>= 1;
  us = us + 1;
  char ch = 'a';
  o[1] = ch;
  device int* p = o + 2;
  p[0] = *(o + 1);
  device const int* cp = p;
  o[3] = cp[0];
  if (p != nullptr) { *p++ = 1;
  } int arr[3] = {1, 2, 3};
  for (auto a : arr) o[4] += a;
}
