// vec<T, N> and packed_vec<T, N> (specification 2.2): constructors from any mix of parts, element-wise operators.
//
// Swizzles are made for those a source uses. The front end writes METAL_SWIZZLES_2, _3 and _4 before this file: lists of
// METAL_READ(xy, 2, 0, 1) and METAL_WRITE(xy, 2, 0, 1). A swizzle that is read was rewritten to `.get_xy()`; one that is
// assigned to is a property, so that a vector stays a plain value that a union may hold.
#pragma once

#include "types.hpp"

#ifndef METAL_SWIZZLES_2
#define METAL_SWIZZLES_2
#define METAL_SWIZZLES_3
#define METAL_SWIZZLES_4
#endif

namespace metal {

template <class T, int N>
struct vec;
template <class T, int N>
struct packed_vec;

namespace shim {

// What a type is made of: `lanes` 0 for a scalar, else a vector's length.
template <class V>
struct shape {
  static constexpr int lanes = 0;
  using element = V;
};
template <class T, int N>
struct shape<vec<T, N>> {
  static constexpr int lanes = N;
  using element = T;
};
template <class T, int N>
struct shape<packed_vec<T, N>> {
  static constexpr int lanes = N;
  using element = T;
};
template <class V>
inline constexpr int lanes = shape<remove_cvref_t<V>>::lanes;
template <class V>
using element_t = typename shape<remove_cvref_t<V>>::element;
template <class V>
inline constexpr bool vector = (lanes<V> > 0);
template <class V>
inline constexpr bool scalar = (lanes<V> == 0) && (is_arithmetic_v<remove_cvref_t<V>> || __is_enum(remove_cvref_t<V>));
template <class V>
inline constexpr bool scalar_like = !vector<V> && (scalar<V> || __is_convertible(V, float));

template <class... P>
inline constexpr int part_lanes = ((vector<P> ? lanes<P> : 1) + ... + 0);

}  // namespace shim

template <class V>
struct is_vector : bool_constant<(shim::lanes<V> > 0)> {};
template <class V>
inline constexpr bool is_vector_v = is_vector<V>::value;
template <class V>
struct vec_elements : integral_constant<int, shim::lanes<V>> {};
template <class V>
inline constexpr int vec_elements_v = shim::lanes<V>;
template <class T, int N>
struct make_vector {
  using type = vec<T, N>;
};
template <class V>
struct make_scalar {
  using type = shim::element_t<V>;
};
template <class V>
using make_scalar_t = shim::element_t<V>;

#define METAL_READ(name, count, ...) \
  METAL_INLINE constexpr vec<T, count> get_##name() const { return this->template read<__VA_ARGS__>(); }
#define METAL_WRITE(name, count, ...) \
  METAL_INLINE constexpr vec<T, count> get_##name() const { return this->template read<__VA_ARGS__>(); } \
  METAL_INLINE constexpr void put_##name(vec<T, count> v) { this->template write<__VA_ARGS__>(v); } \
  __declspec(property(get = get_##name, put = put_##name)) vec<T, count> name;

// Constructors: one scalar for all, an explicit conversion, any parts that add up to N.
#define METAL_VECTOR_BODY(name, N) \
  METAL_INLINE name() = default; \
  template <class S, enable_if_t<shim::scalar_like<S>, int> = 0> \
  METAL_INLINE constexpr name(S s) : e{} { \
    for (int i = 0; i < N; ++i) e[i] = shim::scalar_cast<T>(s); \
  } \
  template <class U, enable_if_t<!__is_same(name, vec<U, N>) && __is_same(U, T), int> = 0> \
  METAL_INLINE constexpr name(const vec<U, N>& v) : e{} { \
    for (int i = 0; i < N; ++i) e[i] = v.e[i]; \
  } \
  template <class U, enable_if_t<!__is_same(U, T), int> = 0> \
  METAL_INLINE constexpr explicit name(const vec<U, N>& v) : e{} { \
    for (int i = 0; i < N; ++i) e[i] = shim::scalar_cast<T>(v.e[i]); \
  } \
  template <class U, enable_if_t<!__is_same(name, packed_vec<U, N>) && __is_same(U, T), int> = 0> \
  METAL_INLINE constexpr name(const packed_vec<U, N>& v) : e{} { \
    for (int i = 0; i < N; ++i) e[i] = v.e[i]; \
  } \
  template <class U, enable_if_t<!__is_same(U, T), int> = 0> \
  METAL_INLINE constexpr explicit name(const packed_vec<U, N>& v) : e{} { \
    for (int i = 0; i < N; ++i) e[i] = shim::scalar_cast<T>(v.e[i]); \
  } \
  template <class A, class B, class... Rest, enable_if_t<(shim::part_lanes<A, B, Rest...> == N), int> = 0> \
  METAL_INLINE constexpr name(const A& a, const B& b, const Rest&... rest) : e{} { \
    int at = 0; \
    put_part(at, a); \
    put_part(at, b); \
    (put_part(at, rest), ...); \
  } \
  template <class P> \
  METAL_INLINE constexpr void put_part(int& at, const P& part) { \
    if constexpr (shim::vector<P>) { \
      for (int i = 0; i < shim::lanes<P>; ++i) e[at++] = shim::scalar_cast<T>(part.e[i]); \
    } else \
      e[at++] = shim::scalar_cast<T>(part); \
  } \
  template <int... I> \
  METAL_INLINE constexpr vec<T, sizeof...(I)> read() const { \
    vec<T, sizeof...(I)> r; \
    int at = 0; \
    ((r.e[at++] = e[I]), ...); \
    return r; \
  } \
  template <int... I> \
  METAL_INLINE constexpr void write(vec<T, sizeof...(I)> v) { \
    int at = 0; \
    ((e[I] = v.e[at++]), ...); \
  } \
  METAL_INLINE constexpr auto& operator[](size_t i) { return e[i]; } \
  METAL_INLINE constexpr T operator[](size_t i) const { return e[i]; }

// The address space of an element reference is that of the vector: operator[] above returns a default reference, to
// which every space converts.

template <class T>
struct vec<T, 1> {
  union {
    T e[1];
    T x;
  };
  METAL_VECTOR_BODY(vec, 1)
};
template <class T>
struct alignas(2 * sizeof(T)) vec<T, 2> {
  union {
    T e[2];
    struct {
      T x, y;
    };
    struct {
      T r, g;
    };
  };
  METAL_VECTOR_BODY(vec, 2)
  METAL_SWIZZLES_2
};
template <class T>
struct alignas(4 * sizeof(T)) vec<T, 3> {
  union {
    T e[3];
    struct {
      T x, y, z;
    };
    struct {
      T r, g, b;
    };
  };
  METAL_VECTOR_BODY(vec, 3)
  METAL_SWIZZLES_3
};
template <class T>
struct alignas(4 * sizeof(T)) vec<T, 4> {
  union {
    T e[4];
    struct {
      T x, y, z, w;
    };
    struct {
      T r, g, b, a;
    };
  };
  METAL_VECTOR_BODY(vec, 4)
  METAL_SWIZZLES_4
};
template <class T>
struct packed_vec<T, 2> {
  union {
    T e[2];
    struct {
      T x, y;
    };
    struct {
      T r, g;
    };
  };
  METAL_VECTOR_BODY(packed_vec, 2)
  METAL_SWIZZLES_2
};
template <class T>
struct packed_vec<T, 3> {
  union {
    T e[3];
    struct {
      T x, y, z;
    };
    struct {
      T r, g, b;
    };
  };
  METAL_VECTOR_BODY(packed_vec, 3)
  METAL_SWIZZLES_3
};
template <class T>
struct packed_vec<T, 4> {
  union {
    T e[4];
    struct {
      T x, y, z, w;
    };
    struct {
      T r, g, b, a;
    };
  };
  METAL_VECTOR_BODY(packed_vec, 4)
  METAL_SWIZZLES_4
};
#undef METAL_VECTOR_BODY
#undef METAL_READ
#undef METAL_WRITE

namespace shim {

// The plain vector that an operand stands for, a scalar included.
template <class T, int N, class V>
METAL_INLINE constexpr vec<T, N> lift(const V& v) {
  if constexpr (vector<V>) {
    vec<T, N> r;
    for (int i = 0; i < N; ++i) r.e[i] = scalar_cast<T>(v.e[i]);
    return r;
  } else
    return vec<T, N>(v);
}

// `float4 v = {1, 2}`: the parts in order, zeros after them.
template <class V, class... P>
METAL_INLINE constexpr V listed(const P&... part) {
  static_assert(part_lanes<P...> <= lanes<V>, "more parts than the vector has");
  V r(element_t<V>(0));
  int at = 0;
  (r.put_part(at, part), ...);
  return r;
}

template <class A, class B>
struct pair {
  using V = conditional_t<vector<A>, A, B>;
  using element = element_t<V>;
  static constexpr int count = lanes<V>;
};
template <class A, class B>
inline constexpr bool vector_operands = (vector<A> && vector<B> && lanes<A> == lanes<B>) || (vector<A> && scalar_like<B>) ||
                          (scalar_like<A> && vector<B>);

}  // namespace shim

#define METAL_OPERATOR(op) \
  template <class A, class B, enable_if_t<(shim::vector_operands<A, B>), int> = 0> \
  METAL_INLINE constexpr auto operator op(const A& a, const B& b) { \
    using T = typename shim::pair<A, B>::element; \
    constexpr int N = shim::pair<A, B>::count; \
    vec<T, N> x = shim::lift<T, N>(a), y = shim::lift<T, N>(b), r; \
    for (int i = 0; i < N; ++i) r.e[i] = (T)(x.e[i] op y.e[i]); \
    return r; \
  } \
  template <class A, class B, enable_if_t<shim::vector<A>, int> = 0, enable_if_t<(shim::vector_operands<A, B>), int> = 0> \
  METAL_INLINE constexpr A& operator op##=(A& a, const B& b) { \
    a = remove_cvref_t<A>(a op b); \
    return a; \
  }
METAL_OPERATOR(+)
METAL_OPERATOR(-)
METAL_OPERATOR(*)
METAL_OPERATOR(/)
METAL_OPERATOR(%)
METAL_OPERATOR(&)
METAL_OPERATOR(|)
METAL_OPERATOR(^)
METAL_OPERATOR(<<)
METAL_OPERATOR(>>)
#undef METAL_OPERATOR

#define METAL_COMPARISON(op) \
  template <class A, class B, enable_if_t<(shim::vector_operands<A, B>), int> = 0> \
  METAL_INLINE constexpr auto operator op(const A& a, const B& b) { \
    using T = typename shim::pair<A, B>::element; \
    constexpr int N = shim::pair<A, B>::count; \
    vec<T, N> x = shim::lift<T, N>(a), y = shim::lift<T, N>(b); \
    vec<bool, N> r; \
    for (int i = 0; i < N; ++i) r.e[i] = x.e[i] op y.e[i]; \
    return r; \
  }
METAL_COMPARISON(<)
METAL_COMPARISON(>)
METAL_COMPARISON(<=)
METAL_COMPARISON(>=)
METAL_COMPARISON(==)
METAL_COMPARISON(!=)
METAL_COMPARISON(&&)
METAL_COMPARISON(||)
#undef METAL_COMPARISON

template <class A, enable_if_t<shim::vector<A>, int> = 0>
METAL_INLINE constexpr auto operator+(const A& a) {
  return shim::lift<shim::element_t<A>, shim::lanes<A>>(a);
}
template <class A, enable_if_t<shim::vector<A>, int> = 0>
METAL_INLINE constexpr auto operator-(const A& a) {
  vec<shim::element_t<A>, shim::lanes<A>> r;
  for (int i = 0; i < shim::lanes<A>; ++i) r.e[i] = (shim::element_t<A>)-a.e[i];
  return r;
}
template <class A, enable_if_t<shim::vector<A>, int> = 0>
METAL_INLINE constexpr auto operator~(const A& a) {
  vec<shim::element_t<A>, shim::lanes<A>> r;
  for (int i = 0; i < shim::lanes<A>; ++i) r.e[i] = (shim::element_t<A>)~a.e[i];
  return r;
}
template <class A, enable_if_t<shim::vector<A>, int> = 0>
METAL_INLINE constexpr auto operator!(const A& a) {
  vec<bool, shim::lanes<A>> r;
  for (int i = 0; i < shim::lanes<A>; ++i) r.e[i] = !a.e[i];
  return r;
}
template <class A, enable_if_t<shim::vector<A>, int> = 0>
METAL_INLINE constexpr A& operator++(A& a) {
  return a += (shim::element_t<A>)1;
}
template <class A, enable_if_t<shim::vector<A>, int> = 0>
METAL_INLINE constexpr auto operator++(A& a, int) {
  remove_cvref_t<A> before = a;
  a += (shim::element_t<A>)1;
  return before;
}
template <class A, enable_if_t<shim::vector<A>, int> = 0>
METAL_INLINE constexpr A& operator--(A& a) {
  return a -= (shim::element_t<A>)1;
}

}  // namespace metal

#define METAL_VECTOR_NAMES(T, name) \
  using name##2 = metal::vec<T, 2>; \
  using name##3 = metal::vec<T, 3>; \
  using name##4 = metal::vec<T, 4>; \
  using packed_##name##2 = metal::packed_vec<T, 2>; \
  using packed_##name##3 = metal::packed_vec<T, 3>; \
  using packed_##name##4 = metal::packed_vec<T, 4>; \
  namespace metal { \
  using ::name##2; \
  using ::name##3; \
  using ::name##4; \
  using ::packed_##name##2; \
  using ::packed_##name##3; \
  using ::packed_##name##4; \
  }
METAL_VECTOR_NAMES(bool, bool)
METAL_VECTOR_NAMES(char, char)
METAL_VECTOR_NAMES(unsigned char, uchar)
METAL_VECTOR_NAMES(short, short)
METAL_VECTOR_NAMES(unsigned short, ushort)
METAL_VECTOR_NAMES(int, int)
METAL_VECTOR_NAMES(unsigned int, uint)
METAL_VECTOR_NAMES(long, long)
METAL_VECTOR_NAMES(unsigned long, ulong)
METAL_VECTOR_NAMES(float, float)
METAL_VECTOR_NAMES(_Float16, half)
METAL_VECTOR_NAMES(__bf16, bfloat)
#undef METAL_VECTOR_NAMES

// How the runtime hands a position to a parameter that is a vector.
namespace simt {
template <class T, int N>
struct As<metal::vec<T, N>> {
  static METAL_INLINE metal::vec<T, N> from(Position p) {
    metal::vec<T, N> r;
    r.e[0] = p.x;
    if constexpr (N > 1) r.e[1] = p.y;
    if constexpr (N > 2) r.e[2] = p.z;
    return r;
  }
};
}  // namespace simt
