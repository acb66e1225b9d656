// Functions on numbers and vectors (specification 6.3 to 6.6: common, integer, relational, math, geometric).
//
// One rule for all: half and bfloat are computed in float and rounded once; a vector is its elements. Metal's functions
// take one type; those here meet in the wider one, which accepts a few calls that Apple's compiler calls ambiguous.
#pragma once

#include "vector.hpp"

namespace metal {

namespace shim {

template <class T>
using real_t = conditional_t<is_floating_point_v<remove_cvref_t<T>>, remove_cvref_t<T>, float>;

// Applies f to each element of a, or to a itself; the result has f's type.
template <class F, class A>
METAL_INLINE constexpr auto map(F f, const A& a) {
  if constexpr (vector<A>) {
    vec<decltype(f(element_t<A>())), lanes<A>> r;
    for (int i = 0; i < lanes<A>; ++i) r.e[i] = f(a.e[i]);
    return r;
  } else
    return f((remove_cvref_t<A>)a);
}

template <int i, class A>
METAL_INLINE constexpr auto part(const A& a, int at) {
  if constexpr (vector<A>)
    return a.e[at];
  else
    return (remove_cvref_t<A>)a;
}

template <class... A>
inline constexpr int most_lanes = [] {
  int most = 0;
  ((most = lanes<A> > most ? lanes<A> : most), ...);
  return most;
}();

// The element type that operands agree on: that of the vectors among them, else where the scalars meet.
template <class A, class... Rest>
struct agree {
  using type = element_t<A>;
};
template <class A, class B, class... Rest>
struct agree<A, B, Rest...> {
  using T = typename conditional_t<vector<A> && !vector<B>, agree<A>,
                                   conditional_t<vector<B> && !vector<A>, agree<B>, meet<element_t<A>, element_t<B>>>>::type;
  using V = conditional_t<vector<A> || vector<B>, vec<T, 2>, T>;
  using type = typename agree<V, Rest...>::type;
};
template <class... A>
using agree_t = typename agree<remove_cvref_t<A>...>::type;

template <class... A>
inline constexpr bool numbers = ((vector<A> || scalar<A>) && ...);

// Applies f to the operands, element by element, all converted to T first.
template <class T, class F, class... A>
METAL_INLINE constexpr auto zip(F f, const A&... a) {
  constexpr int N = most_lanes<A...>;
  if constexpr (N == 0)
    return f(scalar_cast<T>((remove_cvref_t<A>)a)...);
  else {
    vec<decltype(f(((void)sizeof(A), T())...)), N> r;
    for (int i = 0; i < N; ++i) r.e[i] = f(scalar_cast<T>(part<0>(a, i))...);
    return r;
  }
}

METAL_INLINE float sinpi_of(float x) {
  float turns = x - 2.0f * __builtin_floorf(x * 0.5f);
  float sign = turns >= 1.0f ? -1.0f : 1.0f;
  if (turns >= 1.0f) turns -= 1.0f;
  if (turns > 0.5f) turns = 1.0f - turns;
  return sign * simt::math::sin(turns * 3.14159265358979323846f);
}
METAL_INLINE float cospi_of(float x) { return sinpi_of(x + 0.5f); }
METAL_INLINE float fract_of(float x) {
  float part = x - __builtin_floorf(x);
  return part < 1.0f ? part : 0x1.fffffep-1f;
}
METAL_INLINE float sign_of(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x == x ? x : 0.0f; }
METAL_INLINE float saturate_of(float x) { return x >= 0 ? (x < 1 ? x : 1.0f) : 0.0f; }

}  // namespace shim

#define METAL_UNARY(name, ...) \
  template <class A, enable_if_t<(shim::numbers<A>), int> = 0> \
  METAL_INLINE constexpr auto name(const A& a) { \
    using T = shim::real_t<shim::element_t<A>>; \
    return shim::map([](auto v) __attribute__((always_inline)) { \
      float x = (float)v; \
      return (T)(__VA_ARGS__); \
    }, a); \
  }
#define METAL_UNARIES \
  METAL_UNARY(acos, simt::math::acos(x)) \
  METAL_UNARY(acosh, simt::math::acosh(x)) \
  METAL_UNARY(asin, simt::math::asin(x)) \
  METAL_UNARY(asinh, simt::math::asinh(x)) \
  METAL_UNARY(atan, simt::math::atan(x)) \
  METAL_UNARY(atanh, simt::math::atanh(x)) \
  METAL_UNARY(cbrt, simt::math::cbrt(x)) \
  METAL_UNARY(ceil, __builtin_ceilf(x)) \
  METAL_UNARY(cos, simt::math::cos(x)) \
  METAL_UNARY(cosh, simt::math::cosh(x)) \
  METAL_UNARY(cospi, shim::cospi_of(x)) \
  METAL_UNARY(exp2, simt::math::exp2(x)) \
  METAL_UNARY(exp10, simt::math::exp10(x)) \
  METAL_UNARY(fabs, __builtin_fabsf(x)) \
  METAL_UNARY(floor, __builtin_floorf(x)) \
  METAL_UNARY(fract, shim::fract_of(x)) \
  METAL_UNARY(log, simt::math::log(x)) \
  METAL_UNARY(log2, simt::math::log2(x)) \
  METAL_UNARY(log10, simt::math::log10(x)) \
  METAL_UNARY(rint, __builtin_rintf(x)) \
  METAL_UNARY(round, __builtin_roundf(x)) \
  METAL_UNARY(rsqrt, 1.0f / __builtin_sqrtf(x)) \
  METAL_UNARY(saturate, shim::saturate_of(x)) \
  METAL_UNARY(sign, shim::sign_of(x)) \
  METAL_UNARY(sin, simt::math::sin(x)) \
  METAL_UNARY(sinh, simt::math::sinh(x)) \
  METAL_UNARY(sinpi, shim::sinpi_of(x)) \
  METAL_UNARY(sqrt, __builtin_sqrtf(x)) \
  METAL_UNARY(tan, simt::math::tan(x)) \
  METAL_UNARY(tanh, simt::math::tanh(x)) \
  METAL_UNARY(tanpi, shim::sinpi_of(x) / shim::cospi_of(x)) \
  METAL_UNARY(trunc, __builtin_truncf(x))

// Two or three real operands.
#define METAL_BINARY(name, ...) \
  template <class A, class B, enable_if_t<(shim::numbers<A, B>), int> = 0> \
  METAL_INLINE constexpr auto name(const A& a, const B& b) { \
    using T = shim::real_t<shim::agree_t<A, B>>; \
    return shim::zip<T>([](T v, T w) __attribute__((always_inline)) { \
      float x = (float)v, y = (float)w; \
      return (T)(__VA_ARGS__); \
    }, a, b); \
  }
#define METAL_TERNARY(name, ...) \
  template <class A, class B, class C, enable_if_t<(shim::numbers<A, B, C>), int> = 0> \
  METAL_INLINE constexpr auto name(const A& a, const B& b, const C& c) { \
    using T = shim::real_t<shim::agree_t<A, B, C>>; \
    return shim::zip<T>([](T u, T v, T w) __attribute__((always_inline)) { \
      float x = (float)u, y = (float)v, z = (float)w; \
      return (T)(__VA_ARGS__); \
    }, a, b, c); \
  }
#define METAL_BINARIES \
  METAL_BINARY(atan2, simt::math::atan2(x, y)) \
  METAL_BINARY(copysign, __builtin_copysignf(x, y)) \
  METAL_BINARY(divide, x / y) \
  METAL_BINARY(fdim, x > y ? x - y : x <= y ? 0.0f : x + y) \
  METAL_BINARY(fmax, __builtin_fmaxf(x, y)) \
  METAL_BINARY(fmin, __builtin_fminf(x, y)) \
  METAL_BINARY(fmod, simt::math::fmod(x, y)) \
  METAL_BINARY(hypot, __builtin_sqrtf(x* x + y * y)) \
  METAL_BINARY(nextafter, simt::math::nextafter(x, y)) \
  METAL_BINARY(pow, simt::math::pow(x, y)) \
  METAL_BINARY(powr, simt::math::pow(x, y)) \
  METAL_BINARY(remainder, simt::math::remainder(x, y)) \
  METAL_BINARY(step, y < x ? 0.0f : 1.0f) \
  METAL_TERNARY(fma, __builtin_fmaf(x, y, z)) \
  METAL_TERNARY(fmax3, __builtin_fmaxf(x, __builtin_fmaxf(y, z))) \
  METAL_TERNARY(fmin3, __builtin_fminf(x, __builtin_fminf(y, z))) \
  METAL_TERNARY(fmedian3, \
                __builtin_fmaxf(__builtin_fminf(x, y), __builtin_fminf(__builtin_fmaxf(x, y), z))) \
  METAL_TERNARY(mix, x + (y - x) * z) \
  METAL_TERNARY(smoothstep, [](float t) { return t * t * (3.0f - 2.0f * t); }(shim::saturate_of((z - x) / (y - x))))

METAL_UNARIES
METAL_UNARY(exp, simt::math::exp(x))
METAL_BINARIES

// Operands of any number type, kept in that type.
#define METAL_ANY2(name, ...) \
  template <class A, class B, enable_if_t<(shim::numbers<A, B>), int> = 0> \
  METAL_INLINE constexpr auto name(const A& a, const B& b) { \
    using T = shim::agree_t<A, B>; \
    return shim::zip<T>([](T x, T y) __attribute__((always_inline)) { return (T)(__VA_ARGS__); }, a, b); \
  }
#define METAL_ANY3(name, ...) \
  template <class A, class B, class C, enable_if_t<(shim::numbers<A, B, C>), int> = 0> \
  METAL_INLINE constexpr auto name(const A& a, const B& b, const C& c) { \
    using T = shim::agree_t<A, B, C>; \
    return shim::zip<T>([](T x, T y, T z) __attribute__((always_inline)) { return (T)(__VA_ARGS__); }, a, b, c); \
  }
namespace shim {
// A NaN gives way to a number, as with fmin and fmax, which min and max are in Metal for real numbers. A GPU has an
// instruction for that, which the compiler does not see in the comparisons; on the CPU those become vector code.
template <class T>
METAL_INLINE constexpr T least(T x, T y) {
  if constexpr (is_floating_point_v<T>)
#ifdef SIMT_CUDA
    return (T)__builtin_fminf((float)x, (float)y);
#else
    return x != x ? y : y < x ? y : x;
#endif
  else
    return y < x ? y : x;
}
template <class T>
METAL_INLINE constexpr T most(T x, T y) {
  if constexpr (is_floating_point_v<T>)
#ifdef SIMT_CUDA
    return (T)__builtin_fmaxf((float)x, (float)y);
#else
    return x != x ? y : x < y ? y : x;
#endif
  else
    return x < y ? y : x;
}
template <class T>
METAL_INLINE constexpr T absolute(T x) {
  if constexpr (is_floating_point_v<T>)
    return (T)__builtin_fabsf((float)x);
  else if constexpr (is_unsigned_v<T>)
    return x;
  else
    return x < 0 ? (T)-x : x;
}
}  // namespace shim
#define METAL_COMMON \
  METAL_ANY2(max, shim::most(x, y)) \
  METAL_ANY2(min, shim::least(x, y)) \
  METAL_ANY3(max3, shim::most(x, shim::most(y, z))) \
  METAL_ANY3(min3, shim::least(x, shim::least(y, z))) \
  METAL_ANY3(median3, shim::most(shim::least(x, y), shim::least(shim::most(x, y), z))) \
  METAL_ANY3(clamp, shim::least(shim::most(x, y), z)) \
  template <class A, enable_if_t<(shim::numbers<A>), int> = 0> \
  METAL_INLINE constexpr auto abs(const A& a) { \
    return shim::map([](auto x) __attribute__((always_inline)) { return shim::absolute(x); }, a); \
  }
METAL_COMMON

// Results beside the value come back through a reference or a pointer.
template <class A, class R>
METAL_INLINE auto modf(const A& a, R&& whole) {
  whole = trunc(a);
  return a - whole;
}
template <class A, class R>
METAL_INLINE auto sincos(const A& a, R&& cosine) {
  cosine = cos(a);
  return sin(a);
}
template <class A, class R>
METAL_INLINE auto frexp(const A& a, R&& exponent) {
  if constexpr (shim::vector<A>) {
    vec<shim::element_t<A>, shim::lanes<A>> r;
    for (int i = 0; i < shim::lanes<A>; ++i) r.e[i] = (shim::element_t<A>)simt::math::frexp((float)a.e[i], &exponent.e[i]);
    return r;
  } else {
    int k;
    A r = (A)simt::math::frexp((float)a, &k);
    exponent = k;
    return r;
  }
}
template <class A, class B, enable_if_t<(shim::numbers<A, B>), int> = 0>
METAL_INLINE auto ldexp(const A& a, const B& k) {
  if constexpr (shim::vector<A>) {
    vec<shim::element_t<A>, shim::lanes<A>> r;
    for (int i = 0; i < shim::lanes<A>; ++i)
      r.e[i] = (shim::element_t<A>)simt::math::ldexp((float)a.e[i], (int)shim::part<0>(k, i));
    return r;
  } else
    return (remove_cvref_t<A>)simt::math::ldexp((float)a, (int)k);
}
template <class A, enable_if_t<(shim::numbers<A>), int> = 0>
METAL_INLINE auto ilogb(const A& a) {
  return shim::map([](auto v) {
    int k;
    simt::math::frexp((float)v, &k);
    return k - 1;
  }, a);
}

namespace fast {
METAL_UNARIES
METAL_UNARY(exp, simt::math::fast_exp(x))
METAL_BINARIES
METAL_COMMON
using metal::frexp;
using metal::ldexp;
using metal::modf;
using metal::sincos;
}  // namespace fast
namespace precise {
METAL_UNARIES
METAL_UNARY(exp, simt::math::exp(x))
METAL_BINARIES
METAL_COMMON
using metal::frexp;
using metal::ldexp;
using metal::modf;
using metal::sincos;
}  // namespace precise
#undef METAL_UNARIES
#undef METAL_UNARY
#undef METAL_BINARIES
#undef METAL_BINARY
#undef METAL_TERNARY
#undef METAL_COMMON

// Integers.
namespace shim {
template <class T>
inline constexpr int bits = sizeof(T) * 8;
template <class T>
using wide_t = conditional_t<is_unsigned_v<T>, conditional_t<sizeof(T) == 8, unsigned __int128, ulong>,
                             conditional_t<sizeof(T) == 8, __int128, long>>;
template <class T>
METAL_INLINE constexpr T clz_of(T x) {
  auto u = (make_unsigned_t<T>)x;
  return u ? (T)(__builtin_clzll((unsigned long long)u) - (64 - bits<T>)) : (T)bits<T>;
}
template <class T>
METAL_INLINE constexpr T ctz_of(T x) {
  auto u = (make_unsigned_t<T>)x;
  return u ? (T)__builtin_ctzll((unsigned long long)u) : (T)bits<T>;
}
template <class T>
METAL_INLINE constexpr T reverse_of(T x) {
  if constexpr (sizeof(T) == 1)
    return (T)__builtin_bitreverse8((uchar)x);
  else if constexpr (sizeof(T) == 2)
    return (T)__builtin_bitreverse16((ushort)x);
  else if constexpr (sizeof(T) == 4)
    return (T)__builtin_bitreverse32((uint)x);
  else
    return (T)__builtin_bitreverse64((ulong)x);
}
template <class T>
METAL_INLINE constexpr T saturated(wide_t<T> x) {
  wide_t<T> least = numeric_limits<T>::min(), most = numeric_limits<T>::max();
  return (T)(x < least ? least : x > most ? most : x);
}
template <class T>
METAL_INLINE constexpr T add_saturated(T x, T y) {
  T r;
  if (!__builtin_add_overflow(x, y, &r)) return r;
  return x < 0 ? numeric_limits<T>::min() : numeric_limits<T>::max();
}
template <class T>
METAL_INLINE constexpr T subtract_saturated(T x, T y) {
  T r;
  if (!__builtin_sub_overflow(x, y, &r)) return r;
  return is_unsigned_v<T> || x < 0 ? numeric_limits<T>::min() : numeric_limits<T>::max();
}
template <class T>
METAL_INLINE constexpr T extract(T x, uint at, uint count) {
  if (!count) return 0;
  auto u = (make_unsigned_t<T>)x;
  u = (make_unsigned_t<T>)(u << (bits<T> - at - count));
  return (T)((T)u >> (bits<T> - count));
}
template <class T>
METAL_INLINE constexpr T insert(T base, T part, uint at, uint count) {
  using U = make_unsigned_t<T>;
  U mask = count >= (uint)bits<T> ? (U)~(U)0 : (U)(((U)1 << count) - 1);
  mask = (U)(mask << at);
  return (T)(((U)base & ~mask) | (((U)part << at) & mask));
}
}  // namespace shim
#define METAL_INTEGER1(name, ...) \
  template <class A, enable_if_t<(shim::numbers<A>), int> = 0> \
  METAL_INLINE constexpr auto name(const A& a) { \
    return shim::map([](auto x) __attribute__((always_inline)) { \
      using T = decltype(x); \
      return (T)(__VA_ARGS__); \
    }, a); \
  }
METAL_INTEGER1(clz, shim::clz_of<T>(x))
METAL_INTEGER1(ctz, shim::ctz_of<T>(x))
METAL_INTEGER1(popcount, __builtin_popcountll((unsigned long long)(make_unsigned_t<T>)x))
METAL_INTEGER1(reverse_bits, shim::reverse_of<T>(x))
#undef METAL_INTEGER1
METAL_ANY2(absdiff, x > y ? x - y : y - x)
METAL_ANY2(addsat, shim::add_saturated<T>(x, y))
METAL_ANY2(subsat, shim::subtract_saturated<T>(x, y))
METAL_ANY2(hadd, ((shim::wide_t<T>)x + (shim::wide_t<T>)y) >> 1)
METAL_ANY2(rhadd, ((shim::wide_t<T>)x + (shim::wide_t<T>)y + 1) >> 1)
METAL_ANY2(mulhi, ((shim::wide_t<T>)x * (shim::wide_t<T>)y) >> shim::bits<T>)
METAL_ANY2(mul24, x* y)
METAL_ANY2(rotate, [](auto u, uint by) {
  return by ? (u << by) | (u >> (shim::bits<T> - by)) : u;
}((make_unsigned_t<T>)x, (uint)y % shim::bits<T>))
METAL_ANY3(mad24, x* y + z)
METAL_ANY3(madhi, (((shim::wide_t<T>)x * (shim::wide_t<T>)y) >> shim::bits<T>) + z)
METAL_ANY3(madsat, shim::saturated<T>((shim::wide_t<T>)x * (shim::wide_t<T>)y + (shim::wide_t<T>)z))
template <class A>
METAL_INLINE constexpr auto extract_bits(const A& a, uint at, uint count) {
  return shim::map([=](auto x) __attribute__((always_inline)) { return shim::extract(x, at, count); }, a);
}
template <class A>
METAL_INLINE constexpr auto insert_bits(const A& base, const A& part, uint at, uint count) {
  using T = shim::element_t<A>;
  return shim::zip<T>([=](T x, T y) __attribute__((always_inline)) { return shim::insert(x, y, at, count); }, base, part);
}
#undef METAL_ANY2
#undef METAL_ANY3

// Relations.
#define METAL_RELATION(name, ...) \
  template <class A, enable_if_t<(shim::numbers<A>), int> = 0> \
  METAL_INLINE constexpr auto name(const A& a) { \
    return shim::map([](auto v) __attribute__((always_inline)) { \
      float x = (float)v; \
      return (bool)(__VA_ARGS__); \
    }, a); \
  }
METAL_RELATION(isfinite, __builtin_fabsf(x) <= 3.402823466e+38f)
METAL_RELATION(isinf, __builtin_fabsf(x) > 3.402823466e+38f)
METAL_RELATION(isnan, x != x)
METAL_RELATION(isnormal, __builtin_fabsf(x) <= 3.402823466e+38f && __builtin_fabsf(x) >= 1.17549435e-38f)
METAL_RELATION(signbit, __builtin_signbitf(x))
#undef METAL_RELATION
#define METAL_RELATION2(name, ...) \
  template <class A, class B, enable_if_t<(shim::numbers<A, B>), int> = 0> \
  METAL_INLINE constexpr auto name(const A& a, const B& b) { \
    using T = shim::agree_t<A, B>; \
    return shim::zip<T>([](T x, T y) __attribute__((always_inline)) { return (bool)(__VA_ARGS__); }, a, b); \
  }
METAL_RELATION2(isequal, x == y)
METAL_RELATION2(isnotequal, x != y)
METAL_RELATION2(isgreater, x > y)
METAL_RELATION2(isgreaterequal, x >= y)
METAL_RELATION2(isless, x < y)
METAL_RELATION2(islessequal, x <= y)
METAL_RELATION2(islessgreater, x < y || x > y)
METAL_RELATION2(isordered, x == x && y == y)
METAL_RELATION2(isunordered, x != x || y != y)
#undef METAL_RELATION2
template <class A>
METAL_INLINE constexpr bool all(const A& a) {
  bool r = true;
  if constexpr (shim::vector<A>)
    for (int i = 0; i < shim::lanes<A>; ++i) r = r && a.e[i];
  else
    r = (bool)a;
  return r;
}
template <class A>
METAL_INLINE constexpr bool any(const A& a) {
  bool r = false;
  if constexpr (shim::vector<A>)
    for (int i = 0; i < shim::lanes<A>; ++i) r = r || a.e[i];
  else
    r = (bool)a;
  return r;
}
// c ? b : a, by element; of a vector of integers the top bit counts.
template <class A, class B, class C>
METAL_INLINE constexpr auto select(const A& a, const B& b, const C& c) {
  constexpr int N = shim::most_lanes<A, B, C>;
  using T = shim::agree_t<A, B>;
  if constexpr (N == 0)
    return c ? (T)b : (T)a;
  else {
    vec<T, N> r;
    for (int i = 0; i < N; ++i) r.e[i] = shim::part<0>(c, i) ? (T)shim::part<0>(b, i) : (T)shim::part<0>(a, i);
    return r;
  }
}

// Geometry.
template <class A, class B, enable_if_t<(shim::vector<A> && shim::vector<B>), int> = 0>
METAL_INLINE constexpr auto dot(const A& a, const B& b) {
  using T = shim::agree_t<A, B>;
  T r = (T)a.e[0] * (T)b.e[0];
  for (int i = 1; i < shim::lanes<A>; ++i) r = (T)(r + (T)a.e[i] * (T)b.e[i]);
  return r;
}
template <class A, class B, enable_if_t<(shim::lanes<A> == 3 && shim::lanes<B> == 3), int> = 0>
METAL_INLINE constexpr auto cross(const A& a, const B& b) {
  using T = shim::agree_t<A, B>;
  return vec<T, 3>(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
template <class A>
METAL_INLINE constexpr auto length_squared(const A& a) {
  return dot(a, a);
}
template <class A>
METAL_INLINE constexpr auto length(const A& a) {
  return sqrt(dot(a, a));
}
template <class A, class B>
METAL_INLINE constexpr auto distance_squared(const A& a, const B& b) {
  return length_squared(a - b);
}
template <class A, class B>
METAL_INLINE constexpr auto distance(const A& a, const B& b) {
  return length(a - b);
}
template <class A>
METAL_INLINE constexpr auto normalize(const A& a) {
  return a * rsqrt(dot(a, a));
}
template <class A, class B>
METAL_INLINE constexpr auto reflect(const A& a, const B& normal) {
  return a - normal * (dot(normal, a) * 2);
}
template <class A, class B, class C>
METAL_INLINE constexpr auto faceforward(const A& n, const B& i, const C& reference) {
  return dot(reference, i) < 0 ? n : -n;
}

}  // namespace metal

// The bits of one type as another of the same size.
template <class To, class From>
METAL_INLINE constexpr To as_type(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs two types of the same size");
  return __builtin_bit_cast(To, (metal::remove_cvref_t<From>)from);
}
namespace metal {
using ::as_type;
}
