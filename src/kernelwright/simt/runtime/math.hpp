// Functions of real numbers, in float. Included by simt.hpp. On the CPU the compiler's own (libm where it has no
// instruction), but for exp, which softmax and activations wait for and libm's doesn't vectorise; on NVIDIA libdevice.
#pragma once

namespace simt::math {

#ifdef SIMT_CUDA
#define SIMT_MATH_NAME(name) __nv_##name##f
extern "C" {
#define SIMT_MATH1(name) float __nv_##name##f(float);
#define SIMT_MATH2(name) float __nv_##name##f(float, float);
#include "math.inc"
float __nv_expf(float);
float __nv_ldexpf(float, int);
float __nv_frexpf(float, int*);
}
#undef SIMT_MATH1
#undef SIMT_MATH2
#else
#define SIMT_MATH_NAME(name) __builtin_##name##f
#endif

#define SIMT_MATH1(name) \
  SIMT_INLINE float name(float x) { return SIMT_MATH_NAME(name)(x); }
#define SIMT_MATH2(name) \
  SIMT_INLINE float name(float x, float y) { return SIMT_MATH_NAME(name)(x, y); }
#include "math.inc"
#undef SIMT_MATH1
#undef SIMT_MATH2
SIMT_INLINE float ldexp(float x, int k) { return SIMT_MATH_NAME(ldexp)(x, k); }
SIMT_INLINE float frexp(float x, int* k) { return SIMT_MATH_NAME(frexp)(x, k); }
#undef SIMT_MATH_NAME

#ifdef SIMT_CUDA
SIMT_INLINE float exp(float x) { return __nv_expf(x); }
// Wrong by two units in the last place and one more for each unit of |x|; results below 2^-126 are zero.
SIMT_INLINE float fast_exp(float x) { return __nvvm_ex2_approx_ftz_f(x * 1.44269504088896341f); }
#elif defined(SIMT_WATCH)
SIMT_INLINE float exp(float x) { return __builtin_expf(x); }  // counted as one function, not as its polynomial
#else
// exp(x) = 2^k exp(r), |r| <= ln(2) / 2, by Cephes' polynomial (expf.c, S. Moshier): within 1.5 units in the last place.
// No branch and no conversion to integer, which NaN has none of: k is read from the bits of a sum.
SIMT_INLINE float exp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: what is added to it loses its fraction
  x = x > 100.0f ? 100.0f : x;
  x = x < -110.0f ? -110.0f : x;
  float shifted = __builtin_fmaf(x, 1.44269504088896341f, kRound);
  i32 k = __builtin_bit_cast(i32, shifted) - __builtin_bit_cast(i32, kRound);
  float n = shifted - kRound;
  float r = __builtin_fmaf(n, -0.693359375f, x);
  r = __builtin_fmaf(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = __builtin_fmaf(p, r, 1.3981999507e-3f);
  p = __builtin_fmaf(p, r, 8.3334519073e-3f);
  p = __builtin_fmaf(p, r, 4.1665795894e-2f);
  p = __builtin_fmaf(p, r, 1.6666665459e-1f);
  p = __builtin_fmaf(p, r, 5.0000001201e-1f);
  p = __builtin_fmaf(p, r * r, r) + 1.0f;
  i32 half = k >> 1;  // 2^k itself may be out of range where the result is not
  return p * __builtin_bit_cast(float, (half + 127) << 23) * __builtin_bit_cast(float, (k - half + 127) << 23);
}
#endif
#ifndef SIMT_CUDA
SIMT_INLINE float fast_exp(float x) { return exp(x); }
#endif

}  // namespace simt::math
