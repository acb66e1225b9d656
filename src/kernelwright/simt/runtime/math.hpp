// Functions of real numbers, in float. Included by simt.hpp. On the CPU the compiler's own (libm where it has no
// instruction); on NVIDIA libdevice.
#pragma once

namespace simt::math {

#ifdef SIMT_CUDA
#define SIMT_MATH_NAME(name) __nv_##name##f
extern "C" {
#define SIMT_MATH1(name) float __nv_##name##f(float);
#define SIMT_MATH2(name) float __nv_##name##f(float, float);
#include "math.inc"
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

}  // namespace simt::math
