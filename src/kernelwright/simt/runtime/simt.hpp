// A grid of threads in groups of SIMD groups: what a front end's text may use. The same names on CPU cores (cpu.hpp)
// and on an NVIDIA GPU (cuda.hpp, with SIMT_CUDA). Freestanding: no header of the system. C++17 or newer.
//
//   types       i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16, Position{x, y, z}, As<T>::from(Position) to specialise for vectors
//   where       an entry binds its position as parameters (bind:: in entry.hpp; unit.py lists the names). Within:
//               thread_index() lane() simd_index() simd_width() quad_lane() quad_index() -> u32. A body that asks for
//               them keeps its entry off the plain loop.
//   waiting     group_barrier(flags) simd_barrier(flags) fence(order, scope)
//   exchange    shuffle(v, lane) shuffle_xor(v, mask) shuffle_up(v, n) shuffle_down(v, n) rotate_up(v, n)
//               rotate_down(v, n) shuffle_fill_up(v, fill, n, modulo) shuffle_fill_down(v, fill, n, modulo)
//               broadcast(v, lane) broadcast_first(v) ballot(bool) -> u64 active_lanes() -> u64
//               reduce<Op>(v) scan_inclusive<Op>(v) scan_exclusive<Op>(v, first), over the active lanes
//               quad_shuffle(v, lane) quad_shuffle_xor(v, mask) quad_shuffle_up/down(v, n) quad_rotate_up/down(v, n)
//               quad_broadcast(v, lane) quad_reduce<Op>(v) quad_scan_inclusive<Op>(v) quad_scan_exclusive<Op>(v, first)
//               quad_ballot(bool) -> u32
//               v: trivially copyable, up to 32 bytes. Op: `template <class T> static T join(T, T)`, as Sum, Product, Min,
//               Max, And, Or, Xor below. Whatever wraps one of these, or a barrier, must be SIMT_INLINE: the place of the
//               call is where lanes meet again.
//   group memory  SIMT_GROUP before a static variable shared by a group; bind::group_memory for what the launch sized
//   atomics     atomic_load(p, order) atomic_store(p, v, order) atomic_exchange(p, v, order)
//               atomic_compare_exchange(p, &expected, desired, success, failure) -> bool (strong)
//               atomic_fetch_add|sub|and|or|xor|min|max(p, v, order); order: the compiler's __ATOMIC_* numbers
//   matrices    Matrix<T>: 8 x 8, two elements a lane in Apple's layout; fill, diagonal, load, store, multiply_accumulate
//   math        math::exp(float) and so on, see math.hpp
//   text        log(text, bytes)
#pragma once

#ifdef __clang__
#pragma clang system_header
#endif

#ifndef SIMT_WIDTH
#define SIMT_WIDTH 32
#endif

// Before what the host finds by name. In clang's SYCL device mode, where address spaces are types, nothing else is emitted.
#ifdef __SYCL_DEVICE_ONLY__
#define SIMT_EXPORT [[clang::sycl_external]] __attribute__((visibility("default")))
#else
#define SIMT_EXPORT __attribute__((visibility("default")))
#endif

#define SIMT_INLINE inline __attribute__((always_inline))

namespace simt {

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned;
using i64 = long;
using u64 = unsigned long;
using f16 = _Float16;
using bf16 = __bf16;
using size_t = decltype(sizeof(0));

struct Position {
  u32 x, y, z;
};

// A lane's two elements of a matrix.
struct Pair {
  float x, y;
};

// How a Position becomes the type of an entry's parameter. Scalars take x; a front end specialises it for its vectors.
template <class T>
struct As {
  static SIMT_INLINE T from(Position p) { return T(p.x); }
};
template <>
struct As<Position> {
  static SIMT_INLINE Position from(Position p) { return p; }
};
template <class T>
SIMT_INLINE T as(Position p) {
  return As<T>::from(p);
}

template <class T>
struct remove_reference {
  using type = T;
};
template <class T>
struct remove_reference<T&> {
  using type = T;
};
template <class T>
using bare = __remove_cv(typename remove_reference<T>::type);

struct Sum {
  template <class T>
  static SIMT_INLINE T join(T a, T b) {
    return T(a + b);
  }
};
struct Product {
  template <class T>
  static SIMT_INLINE T join(T a, T b) {
    return T(a * b);
  }
};
struct Min {
  template <class T>
  static SIMT_INLINE T join(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  static SIMT_INLINE T join(T a, T b) {
    return a < b ? b : a;
  }
};
struct And {
  template <class T>
  static SIMT_INLINE T join(T a, T b) {
    return T(a & b);
  }
};
struct Or {
  template <class T>
  static SIMT_INLINE T join(T a, T b) {
    return T(a | b);
  }
};
struct Xor {
  template <class T>
  static SIMT_INLINE T join(T a, T b) {
    return T(a ^ b);
  }
};

}  // namespace simt

#ifdef SIMT_CUDA
#include "cuda.hpp"
#else
#include "cpu.hpp"
#endif

#include "atomics.hpp"
#include "entry.hpp"
#include "math.hpp"
#include "matrix.hpp"
#include "quads.hpp"
