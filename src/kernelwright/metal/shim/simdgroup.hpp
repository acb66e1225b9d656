// Barriers, SIMD-group and quad-group functions (specification 6.9, 6.10).
#pragma once

#include "atomic.hpp"

namespace metal {

METAL_INLINE void threadgroup_barrier(mem_flags flags, thread_scope = thread_scope_threadgroup) {
  simt::group_barrier((uint)flags);
}
METAL_INLINE void threadgroup_barrier(mem_flags flags, memory_order, thread_scope = thread_scope_threadgroup) {
  simt::group_barrier((uint)flags);
}
METAL_INLINE void simdgroup_barrier(mem_flags flags, thread_scope = thread_scope_simdgroup) {
  simt::simd_barrier((uint)flags);
}
METAL_INLINE void simdgroup_barrier(mem_flags flags, memory_order, thread_scope = thread_scope_simdgroup) {
  simt::simd_barrier((uint)flags);
}

template <class T>
struct __is_valid_simdgroup_type : bool_constant<is_arithmetic_v<T> && !is_same_v<T, bool> && sizeof(T) <= 4> {};
template <class T, int N>
struct __is_valid_simdgroup_type<vec<T, N>> : __is_valid_simdgroup_type<T> {};

// bfloat travels as the runtime knows it; a vector is reduced by its elements.
namespace shim {
template <class Op, class A>
METAL_INLINE auto reduced(const A& a) {
  if constexpr (vector<A>) {
    vec<element_t<A>, lanes<A>> r;
    for (int i = 0; i < lanes<A>; ++i) r.e[i] = simt::reduce<Op>(a.e[i]);
    return r;
  } else
    return simt::reduce<Op>((remove_cvref_t<A>)a);
}
template <class Op, class A>
METAL_INLINE auto quad_reduced(const A& a) {
  if constexpr (vector<A>) {
    vec<element_t<A>, lanes<A>> r;
    for (int i = 0; i < lanes<A>; ++i) r.e[i] = simt::quad_reduce<Op>(a.e[i]);
    return r;
  } else
    return simt::quad_reduce<Op>((remove_cvref_t<A>)a);
}
// As the runtime's Min and Max, with Metal's rule for NaN.
struct Min {
  template <class T>
  static METAL_INLINE T join(T a, T b) {
    return least(a, b);
  }
};
struct Max {
  template <class T>
  static METAL_INLINE T join(T a, T b) {
    return most(a, b);
  }
};
// On the bits, which real numbers have too.
template <class T>
using bits_t = conditional_t<!is_floating_point_v<T>, T, conditional_t<sizeof(T) == 4, uint, ushort>>;
struct And {
  template <class T>
  static METAL_INLINE T join(T a, T b) {
    return as_type<T>((bits_t<T>)(as_type<bits_t<T>>(a) & as_type<bits_t<T>>(b)));
  }
};
struct Or {
  template <class T>
  static METAL_INLINE T join(T a, T b) {
    return as_type<T>((bits_t<T>)(as_type<bits_t<T>>(a) | as_type<bits_t<T>>(b)));
  }
};
struct Xor {
  template <class T>
  static METAL_INLINE T join(T a, T b) {
    return as_type<T>((bits_t<T>)(as_type<bits_t<T>>(a) ^ as_type<bits_t<T>>(b)));
  }
};
}  // namespace shim

#define METAL_REDUCTION(name, Op) \
  template <class A> \
  METAL_INLINE auto simd_##name(A a) { \
    return shim::reduced<Op>(a); \
  } \
  template <class A> \
  METAL_INLINE auto quad_##name(A a) { \
    return shim::quad_reduced<Op>(a); \
  }
METAL_REDUCTION(sum, simt::Sum)
METAL_REDUCTION(product, simt::Product)
METAL_REDUCTION(min, shim::Min)
METAL_REDUCTION(max, shim::Max)
METAL_REDUCTION(and, shim::And)
METAL_REDUCTION(or, shim::Or)
METAL_REDUCTION(xor, shim::Xor)
#undef METAL_REDUCTION

#define METAL_SCAN(name, Op, first) \
  template <class A> \
  METAL_INLINE A simd_prefix_inclusive_##name(A a) { \
    return simt::scan_inclusive<Op>(a); \
  } \
  template <class A> \
  METAL_INLINE A simd_prefix_exclusive_##name(A a) { \
    return simt::scan_exclusive<Op>(a, (A)first); \
  } \
  template <class A> \
  METAL_INLINE A quad_prefix_inclusive_##name(A a) { \
    return simt::quad_scan_inclusive<Op>(a); \
  } \
  template <class A> \
  METAL_INLINE A quad_prefix_exclusive_##name(A a) { \
    return simt::quad_scan_exclusive<Op>(a, (A)first); \
  }
METAL_SCAN(sum, simt::Sum, 0)
METAL_SCAN(product, simt::Product, 1)
#undef METAL_SCAN

#define METAL_EXCHANGE(name, runtime) \
  template <class A> \
  METAL_INLINE A simd_##name(A a, ushort n) { \
    return simt::runtime(a, (simt::u32)n); \
  } \
  template <class A> \
  METAL_INLINE A quad_##name(A a, ushort n) { \
    return simt::quad_##runtime(a, (simt::u32)n); \
  }
METAL_EXCHANGE(shuffle, shuffle)
METAL_EXCHANGE(shuffle_xor, shuffle_xor)
METAL_EXCHANGE(shuffle_up, shuffle_up)
METAL_EXCHANGE(shuffle_down, shuffle_down)
METAL_EXCHANGE(shuffle_rotate_up, rotate_up)
METAL_EXCHANGE(shuffle_rotate_down, rotate_down)
METAL_EXCHANGE(broadcast, broadcast)
#undef METAL_EXCHANGE
template <class A>
METAL_INLINE A simd_broadcast_first(A a) {
  return simt::broadcast_first(a);
}
template <class A>
METAL_INLINE A quad_broadcast_first(A a) {
  return simt::quad_broadcast(a, 0);
}
template <class A>
METAL_INLINE A simd_shuffle_and_fill_up(A a, A fill, ushort n, ushort modulo = 32) {
  return simt::shuffle_fill_up(a, fill, (simt::u32)n, (simt::u32)modulo);
}
template <class A>
METAL_INLINE A simd_shuffle_and_fill_down(A a, A fill, ushort n, ushort modulo = 32) {
  return simt::shuffle_fill_down(a, fill, (simt::u32)n, (simt::u32)modulo);
}

struct simd_vote {
  using vote_t = ulong;
  vote_t bits;
  METAL_INLINE constexpr explicit simd_vote(vote_t b = 0) : bits(b) {}
  METAL_INLINE constexpr explicit operator vote_t() const { return bits; }
  METAL_INLINE constexpr bool all() const { return bits == 0xffffffff; }
  METAL_INLINE constexpr bool any() const { return bits != 0; }
};
struct quad_vote {
  using vote_t = uint;
  vote_t bits;
  METAL_INLINE constexpr explicit quad_vote(vote_t b = 0) : bits(b) {}
  METAL_INLINE constexpr explicit operator vote_t() const { return bits; }
  METAL_INLINE constexpr bool all() const { return bits == 15; }
  METAL_INLINE constexpr bool any() const { return bits != 0; }
};
METAL_INLINE simd_vote simd_ballot(bool b) { return simd_vote(simt::ballot(b)); }
METAL_INLINE bool simd_any(bool b) { return simt::ballot(b) != 0; }
METAL_INLINE bool simd_all(bool b) { return simt::ballot(!b) == 0; }
METAL_INLINE simd_vote simd_active_threads_mask() { return simd_vote(simt::active_lanes()); }
METAL_INLINE bool simd_is_first() { return (simt::active_lanes() & ((1ul << simt::lane()) - 1)) == 0; }
METAL_INLINE bool simd_is_helper_thread() { return false; }
METAL_INLINE quad_vote quad_ballot(bool b) { return quad_vote(simt::quad_ballot(b)); }
METAL_INLINE bool quad_any(bool b) { return simt::quad_ballot(b) != 0; }
METAL_INLINE bool quad_all(bool b) { return simt::quad_ballot(!b) == 0; }

}  // namespace metal
