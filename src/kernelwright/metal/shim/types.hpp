// Scalar types of the Metal Shading Language (specification 4, section 2.1), its address spaces (4) and type traits.
//
// The address spaces are real. In clang's SYCL device mode a named space converts to the default one and never to
// another named one; overloads and partial specialisations pick by space. `thread` is the default space.
#pragma once

#include "simt.hpp"

#define device __attribute__((opencl_global_device))
#define constant const __attribute__((opencl_global_host))
#define threadgroup __attribute__((opencl_local))
// Stands behind the objects that a body has in threadgroup memory. A kernel with too much of it is refused when it is
// built; a source may hold some that are never built, as MLX's attention does.
#ifdef SIMT_VERIFY
#define METAL_GROUP_MEMORY(...)
#else
#define METAL_GROUP_MEMORY(...) \
  static_assert((__VA_ARGS__) <= METAL_GROUP_MEMORY_BYTES, "more threadgroup memory than 32 KB");
#endif
#define METAL_INLINE inline __attribute__((always_inline))

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;
using ulong = unsigned long;
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
using size_t = unsigned long;
using ptrdiff_t = long;
using uintptr_t = unsigned long;
using intptr_t = long;
using half = _Float16;
using bfloat = __bf16;

// Rounding to bfloat is a call on processors without an instruction for it, and nothing else here defines the function.
#ifndef SIMT_CUDA
extern "C" SIMT_EXPORT __attribute__((weak, used)) inline bfloat __truncsfbf2(float value) {
  uint bits = __builtin_bit_cast(uint, value);
  ushort top = (ushort)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  if (value != value) top = (ushort)(bits >> 16 | 0x40);
  return __builtin_bit_cast(bfloat, top);
}
#endif

namespace metal {

using ::bfloat;
using ::half;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intptr_t;
using ::ptrdiff_t;
using ::size_t;
using ::uchar;
using ::uint;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;
using ::ulong;
using ::ushort;

template <class T, T v>
struct integral_constant {
  static constexpr T value = v;
  using value_type = T;
  using type = integral_constant;
  constexpr operator T() const { return v; }
  constexpr T operator()() const { return v; }
};
template <bool b>
using bool_constant = integral_constant<bool, b>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <bool, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  using type = T;
};
template <bool b, class T = void>
using enable_if_t = typename enable_if<b, T>::type;

template <bool, class A, class B>
struct conditional {
  using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
  using type = B;
};
template <bool b, class A, class B>
using conditional_t = typename conditional<b, A, B>::type;

// A qualifier on top of a type, an address space included: `device const float` -> `float`.
template <class T>
struct remove_addrspace {
  using type = T;
};
template <class T>
struct remove_addrspace<device T> {
  using type = T;
};
template <class T>
struct remove_addrspace<__attribute__((opencl_global_host)) T> {
  using type = T;
};
template <class T>
struct remove_addrspace<threadgroup T> {
  using type = T;
};
template <class T>
using remove_addrspace_t = typename remove_addrspace<T>::type;

template <class T>
struct remove_const {
  using type = T;
};
template <class T>
struct remove_const<const T> {
  using type = T;
};
template <class T>
using remove_const_t = typename remove_const<T>::type;
template <class T>
struct remove_volatile {
  using type = T;
};
template <class T>
struct remove_volatile<volatile T> {
  using type = T;
};
template <class T>
using remove_volatile_t = typename remove_volatile<T>::type;
template <class T>
struct remove_cv {
  using type = remove_volatile_t<remove_const_t<T>>;
};
template <class T>
using remove_cv_t = typename remove_cv<T>::type;
template <class T>
struct remove_reference {
  using type = T;
};
template <class T>
struct remove_reference<T&> {
  using type = T;
};
template <class T>
struct remove_reference<T&&> {
  using type = T;
};
template <class T>
using remove_reference_t = typename remove_reference<T>::type;
template <class T>
struct remove_pointer {
  using type = T;
};
template <class T>
struct remove_pointer<T*> {
  using type = T;
};
template <class T>
struct remove_pointer<T* const> {
  using type = T;
};
template <class T>
using remove_pointer_t = typename remove_pointer<T>::type;
template <class T>
struct remove_extent {
  using type = T;
};
template <class T, size_t n>
struct remove_extent<T[n]> {
  using type = T;
};
template <class T>
using remove_extent_t = typename remove_extent<T>::type;
template <class T>
using remove_cvref_t = remove_cv_t<remove_addrspace_t<remove_cv_t<remove_reference_t<T>>>>;
template <class T>
using decay_t = remove_cvref_t<T>;
template <class T>
struct decay {
  using type = decay_t<T>;
};
template <class T>
struct add_const {
  using type = const T;
};
template <class T>
using add_const_t = const T;
template <class T>
struct add_pointer {
  using type = remove_reference_t<T>*;
};
template <class T>
using add_pointer_t = typename add_pointer<T>::type;
template <class T>
struct add_lvalue_reference {
  using type = T&;
};
template <class T>
using add_lvalue_reference_t = T&;
template <class T>
struct make_unsigned {
  using type = __make_unsigned(T);
};
template <class T>
using make_unsigned_t = __make_unsigned(T);
template <class T>
struct make_signed {
  using type = __make_signed(T);
};
template <class T>
using make_signed_t = __make_signed(T);
template <class T>
struct underlying_type {
  using type = __underlying_type(T);
};
template <class T>
using underlying_type_t = __underlying_type(T);
template <class T>
T&& declval();

#define METAL_TRAIT(name, ...) \
  template <class T> \
  struct name : bool_constant<__VA_ARGS__> {}; \
  template <class T> \
  inline constexpr bool name##_v = name<T>::value;
METAL_TRAIT(is_floating_point, __is_floating_point(remove_cv_t<T>) || __is_same(remove_cv_t<T>, half) ||
                                   __is_same(remove_cv_t<T>, bfloat))
METAL_TRAIT(is_integral, __is_integral(T))
METAL_TRAIT(is_arithmetic, __is_arithmetic(T) || is_floating_point_v<T>)
METAL_TRAIT(is_scalar, is_arithmetic_v<T>)
METAL_TRAIT(is_fundamental, is_arithmetic_v<T> || __is_void(T))
METAL_TRAIT(is_signed, __is_signed(T) || is_floating_point_v<T>)
METAL_TRAIT(is_unsigned, __is_unsigned(T))
METAL_TRAIT(is_pointer, __is_pointer(T))
METAL_TRAIT(is_reference, __is_reference(T))
METAL_TRAIT(is_lvalue_reference, __is_lvalue_reference(T))
METAL_TRAIT(is_const, __is_const(T))
METAL_TRAIT(is_volatile, __is_volatile(T))
METAL_TRAIT(is_void, __is_void(T))
METAL_TRAIT(is_array, __is_array(T))
METAL_TRAIT(is_class, __is_class(T))
METAL_TRAIT(is_enum, __is_enum(T))
METAL_TRAIT(is_union, __is_union(T))
METAL_TRAIT(is_trivial, __is_trivially_copyable(T))
METAL_TRAIT(is_trivially_copyable, __is_trivially_copyable(T))
METAL_TRAIT(is_function, __is_function(T))
#undef METAL_TRAIT
template <class A, class B>
struct is_same : bool_constant<__is_same(A, B)> {};
template <class A, class B>
inline constexpr bool is_same_v = __is_same(A, B);
template <class A, class B>
struct is_convertible : bool_constant<__is_convertible(A, B)> {};
template <class A, class B>
inline constexpr bool is_convertible_v = __is_convertible(A, B);
template <class A, class B>
struct is_base_of : bool_constant<__is_base_of(A, B)> {};
template <class A, class B>
inline constexpr bool is_base_of_v = __is_base_of(A, B);
template <class T, class... A>
struct is_constructible : bool_constant<__is_constructible(T, A...)> {};
template <class T, class... A>
inline constexpr bool is_constructible_v = __is_constructible(T, A...);

template <class...>
struct disjunction : false_type {};
template <class A, class... Rest>
struct disjunction<A, Rest...> : conditional_t<bool(A::value), A, disjunction<Rest...>> {};
template <class...>
struct conjunction : true_type {};
template <class A, class... Rest>
struct conjunction<A, Rest...> : conditional_t<bool(A::value), conjunction<Rest...>, A> {};
template <class A>
struct negation : bool_constant<!A::value> {};
template <class... A>
inline constexpr bool disjunction_v = disjunction<A...>::value;
template <class... A>
inline constexpr bool conjunction_v = conjunction<A...>::value;
template <class A>
inline constexpr bool negation_v = negation<A>::value;
template <class... A>
using _disjunction = disjunction<A...>;
template <class... A>
using _conjunction = conjunction<A...>;

template <class A, class... B>
struct common_type;
template <class A>
struct common_type<A> {
  using type = A;
};
template <class A, class B, class... C>
struct common_type<A, B, C...> : common_type<decltype(true ? declval<A>() : declval<B>()), C...> {};
template <class... A>
using common_type_t = decay_t<typename common_type<A...>::type>;

// The shim's own names: kernels add theirs to namespace metal.
namespace shim {

// The type that arithmetic on two scalars gives; half and bfloat together meet in float.
template <class A, class B>
struct meet {
  using type = decltype((A)0 + (B)0);
};
template <class A>
struct meet<A, A> {
  using type = A;
};
template <>
struct meet<half, bfloat> {
  using type = float;
};
template <>
struct meet<bfloat, half> {
  using type = float;
};
template <class A, class B>
using meet_t = typename meet<remove_cvref_t<A>, remove_cvref_t<B>>::type;
// Values that a conversion between half and bfloat passes through: neither converts to the other in C++.
template <class To, class From>
METAL_INLINE constexpr To scalar_cast(From value) {
  if constexpr ((__is_same(To, half) && __is_same(From, bfloat)) || (__is_same(To, bfloat) && __is_same(From, half)))
    return (To)(float)value;
  else
    return (To)value;
}

// What a kernel's static_cast becomes.
template <class To, class From>
METAL_INLINE constexpr To cast(From&& from) {
  using A = remove_cvref_t<From>;
  using B = remove_cvref_t<To>;
  if constexpr ((__is_same(A, half) && __is_same(B, bfloat)) || (__is_same(A, bfloat) && __is_same(B, half)))
    return (To)(float)from;
  else
    return static_cast<To>((From&&)from);
}

// `read->*x` is x, but a copy where x is an object in a named space: C++ cannot choose between objects of two spaces.
struct Read {
  template <class T>
  METAL_INLINE constexpr decltype(auto) operator->*(T&& x) const {
    using Object = remove_cv_t<remove_reference_t<T>>;
    if constexpr (!__is_lvalue_reference(T&&) || (__is_class(Object) && !__is_same(Object, remove_cvref_t<T>)))
      return remove_cvref_t<T>(x);
    else
      return (T&&)x;
  }
};
inline constexpr Read read{};

}  // namespace shim

template <class T>
struct _numeric_limits_impl {
  static constexpr bool is_specialized = false;
};
template <class T>
struct numeric_limits : _numeric_limits_impl<T> {};
template <class T>
struct numeric_limits<const T> : numeric_limits<T> {};

#define METAL_INTEGER_LIMITS(T, least, most) \
  template <> \
  struct _numeric_limits_impl<T> { \
    static constexpr bool is_specialized = true, is_integer = true, is_exact = true, has_infinity = false; \
    static constexpr bool is_signed = __is_signed(T), has_quiet_NaN = false, is_iec559 = false; \
    static constexpr int digits = __is_same(T, bool) ? 1 : sizeof(T) * 8 - __is_signed(T); \
    static constexpr int digits10 = digits * 3 / 10, radix = 2; \
    static constexpr T max() { return most; } \
    static constexpr T min() { return least; } \
    static constexpr T lowest() { return least; } \
    static constexpr T infinity() { return 0; } \
    static constexpr T epsilon() { return 0; } \
    static constexpr T quiet_NaN() { return 0; } \
  };
METAL_INTEGER_LIMITS(bool, false, true)
METAL_INTEGER_LIMITS(char, -128, 127)
METAL_INTEGER_LIMITS(signed char, -128, 127)
METAL_INTEGER_LIMITS(uchar, 0, 255)
METAL_INTEGER_LIMITS(short, -32768, 32767)
METAL_INTEGER_LIMITS(ushort, 0, 65535)
METAL_INTEGER_LIMITS(int, -2147483647 - 1, 2147483647)
METAL_INTEGER_LIMITS(uint, 0, 4294967295u)
METAL_INTEGER_LIMITS(long, -9223372036854775807l - 1, 9223372036854775807l)
METAL_INTEGER_LIMITS(ulong, 0, 18446744073709551615ul)
METAL_INTEGER_LIMITS(long long, -9223372036854775807ll - 1, 9223372036854775807ll)
METAL_INTEGER_LIMITS(unsigned long long, 0, 18446744073709551615ull)
#undef METAL_INTEGER_LIMITS

#define METAL_FLOAT_LIMITS(T, least, most, eps, denormal, bits, decimals) \
  template <> \
  struct _numeric_limits_impl<T> { \
    static constexpr bool is_specialized = true, is_integer = false, is_exact = false, has_infinity = true; \
    static constexpr bool is_signed = true, has_quiet_NaN = true, is_iec559 = true; \
    static constexpr int digits = bits, digits10 = decimals, radix = 2; \
    static constexpr T max() { return (T)most; } \
    static constexpr T min() { return (T)least; } \
    static constexpr T lowest() { return (T) - most; } \
    static constexpr T infinity() { return (T)__builtin_inff(); } \
    static constexpr T epsilon() { return (T)eps; } \
    static constexpr T quiet_NaN() { return (T)__builtin_nanf(""); } \
    static constexpr T signaling_NaN() { return (T)__builtin_nanf(""); } \
    static constexpr T denorm_min() { return (T)denormal; } \
    static constexpr T round_error() { return (T)0.5f; } \
  };
METAL_FLOAT_LIMITS(float, 1.17549435e-38f, 3.402823466e+38f, 1.1920928955e-7f, 1.401298464e-45f, 24, 6)
METAL_FLOAT_LIMITS(half, 6.103515625e-05f, 65504.f, 9.765625e-4f, 5.9604645e-8f, 11, 3)
METAL_FLOAT_LIMITS(bfloat, 1.17549435e-38f, 3.38953139e38f, 7.8125e-3f, 9.183549616e-41f, 8, 2)
#undef METAL_FLOAT_LIMITS

}  // namespace metal
