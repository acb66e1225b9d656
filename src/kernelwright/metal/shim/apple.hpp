// Names inside Apple's headers that published kernels use all the same, as MLX's bfloat16 math does.
#pragma once

#include "logging.hpp"

enum { __METAL_MAYBE_FAST_MATH__, __METAL_FAST_MATH__, __METAL_PRECISE_MATH__ };

#define METAL_INSIDE1(name) \
  METAL_INLINE float __metal_##name(float x, int = 0) { return metal::name(x); }
#define METAL_INSIDE2(name) \
  METAL_INLINE float __metal_##name(float x, float y, int = 0) { return metal::name(x, y); }
#define METAL_INSIDE3(name) \
  METAL_INLINE float __metal_##name(float x, float y, float z, int = 0) { return metal::name(x, y, z); }
METAL_INSIDE1(acos)
METAL_INSIDE1(acosh)
METAL_INSIDE1(asin)
METAL_INSIDE1(asinh)
METAL_INSIDE1(atan)
METAL_INSIDE1(atanh)
METAL_INSIDE1(ceil)
METAL_INSIDE1(cos)
METAL_INSIDE1(cosh)
METAL_INSIDE1(cospi)
METAL_INSIDE1(exp)
METAL_INSIDE1(exp2)
METAL_INSIDE1(exp10)
METAL_INSIDE1(fabs)
METAL_INSIDE1(floor)
METAL_INSIDE1(fract)
METAL_INSIDE1(log)
METAL_INSIDE1(log2)
METAL_INSIDE1(log10)
METAL_INSIDE1(rint)
METAL_INSIDE1(round)
METAL_INSIDE1(rsqrt)
METAL_INSIDE1(sin)
METAL_INSIDE1(sinh)
METAL_INSIDE1(sinpi)
METAL_INSIDE1(sqrt)
METAL_INSIDE1(tan)
METAL_INSIDE1(tanh)
METAL_INSIDE1(tanpi)
METAL_INSIDE1(trunc)
METAL_INSIDE2(atan2)
METAL_INSIDE2(divide)
METAL_INSIDE2(fmax)
METAL_INSIDE2(fmin)
METAL_INSIDE2(fmod)
METAL_INSIDE2(nextafter)
METAL_INSIDE2(pow)
METAL_INSIDE2(powr)
METAL_INSIDE3(fma)
METAL_INSIDE3(fmax3)
METAL_INSIDE3(fmedian3)
METAL_INSIDE3(fmin3)
#undef METAL_INSIDE1
#undef METAL_INSIDE2
#undef METAL_INSIDE3
METAL_INLINE float __metal_frexp(float x, int* exponent) { return simt::math::frexp(x, exponent); }
METAL_INLINE float __metal_ldexp(float x, int exponent, int = 0) { return simt::math::ldexp(x, exponent); }
METAL_INLINE float __metal_modf(float x, float* whole, int = 0) { return metal::modf(x, *whole); }

#define METAL_INSIDE_SIMD(name) \
  template <class T, class... A> \
  METAL_INLINE T __metal_simd_##name(T x, A... a) { \
    return metal::simd_##name(x, a...); \
  }
METAL_INSIDE_SIMD(and)
METAL_INSIDE_SIMD(broadcast)
METAL_INSIDE_SIMD(broadcast_first)
METAL_INSIDE_SIMD(max)
METAL_INSIDE_SIMD(min)
METAL_INSIDE_SIMD(or)
METAL_INSIDE_SIMD(prefix_exclusive_product)
METAL_INSIDE_SIMD(prefix_exclusive_sum)
METAL_INSIDE_SIMD(prefix_inclusive_product)
METAL_INSIDE_SIMD(prefix_inclusive_sum)
METAL_INSIDE_SIMD(product)
METAL_INSIDE_SIMD(shuffle)
METAL_INSIDE_SIMD(shuffle_and_fill_down)
METAL_INSIDE_SIMD(shuffle_and_fill_up)
METAL_INSIDE_SIMD(shuffle_down)
METAL_INSIDE_SIMD(shuffle_rotate_down)
METAL_INSIDE_SIMD(shuffle_rotate_up)
METAL_INSIDE_SIMD(shuffle_up)
METAL_INSIDE_SIMD(shuffle_xor)
METAL_INSIDE_SIMD(sum)
METAL_INSIDE_SIMD(xor)
#undef METAL_INSIDE_SIMD
METAL_INLINE ushort __metal_get_simdgroup_size(ushort = 0) { return SIMT_WIDTH; }
METAL_INLINE ushort __metal_get_thread_index_in_simdgroup(ushort = 0) { return (ushort)simt::lane(); }
