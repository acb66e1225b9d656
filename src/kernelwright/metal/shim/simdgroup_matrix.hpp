// simdgroup_matrix<T, 8, 8> (specification 6.11): two elements a lane, in the layout that kernels read by hand; and the
// copies between device and threadgroup memory that a SIMD group starts and waits for.
#pragma once

#include "simdgroup.hpp"

namespace metal {

template <class T, int Columns, int Rows>
struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8, "a simdgroup_matrix has 8 columns and 8 rows");
  using storage_type = vec<T, 2>;
  storage_type elements;

  METAL_INLINE simdgroup_matrix() = default;
  METAL_INLINE explicit simdgroup_matrix(T diagonal) {
    simt::Matrix<T> m;
    m.diagonal(diagonal);
    elements = {m.element[0], m.element[1]};
  }
  METAL_INLINE storage_type& thread_elements() { return elements; }
  METAL_INLINE const storage_type& thread_elements() const { return elements; }
};
using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;
using simdgroup_half8x8 = simdgroup_matrix<half, 8, 8>;
using simdgroup_bfloat8x8 = simdgroup_matrix<bfloat, 8, 8>;

namespace shim {
template <class T>
METAL_INLINE simt::Matrix<T> runtime(const simdgroup_matrix<T, 8, 8>& m) {
  return {{m.elements.x, m.elements.y}};
}
}  // namespace shim

template <class T, int C = 8, int R = C>
METAL_INLINE simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, C, R> m;
  m.elements = {value, value};
  return m;
}
template <class T, class P>
METAL_INLINE void simdgroup_load(
    simdgroup_matrix<T, 8, 8>& m, const P* from, ulong per_row = 8, ulong2 origin = ulong2(0), bool transposed = false) {
  simt::Matrix<T> r;
  from += transposed ? origin.x * per_row + origin.y : origin.y * per_row + origin.x;
  r.load(from, (simt::i64)per_row, transposed);
  m.elements = {r.element[0], r.element[1]};
}
template <class T, class P>
METAL_INLINE void simdgroup_store(
    const simdgroup_matrix<T, 8, 8>& m, P* to, ulong per_row = 8, ulong2 origin = ulong2(0), bool transposed = false) {
  to += transposed ? origin.x * per_row + origin.y : origin.y * per_row + origin.x;
  shim::runtime(m).store(to, (simt::i64)per_row, transposed);
}
template <class D, class A, class B, class C>
METAL_INLINE void simdgroup_multiply_accumulate(
    simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a, const simdgroup_matrix<B, 8, 8>& b,
    const simdgroup_matrix<C, 8, 8>& c) {
  simt::Matrix<D> r = simt::multiply_accumulate<D>(shim::runtime(a), shim::runtime(b), shim::runtime(c));
  d.elements = {r.element[0], r.element[1]};
}
template <class D, class A, class B>
METAL_INLINE void simdgroup_multiply(
    simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a, const simdgroup_matrix<B, 8, 8>& b) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D, 8, 8>((D)0));
}
template <class T>
METAL_INLINE simdgroup_matrix<T, 8, 8> operator*(const simdgroup_matrix<T, 8, 8>& a, const simdgroup_matrix<T, 8, 8>& b) {
  simdgroup_matrix<T, 8, 8> d;
  simdgroup_multiply(d, a, b);
  return d;
}
template <class T>
METAL_INLINE simdgroup_matrix<T, 8, 8> operator+(const simdgroup_matrix<T, 8, 8>& a, const simdgroup_matrix<T, 8, 8>& b) {
  simdgroup_matrix<T, 8, 8> d;
  d.elements = a.elements + b.elements;
  return d;
}
template <class T>
METAL_INLINE simdgroup_matrix<T, 8, 8> operator-(const simdgroup_matrix<T, 8, 8>& a, const simdgroup_matrix<T, 8, 8>& b) {
  simdgroup_matrix<T, 8, 8> d;
  d.elements = a.elements - b.elements;
  return d;
}

// A copy is done when it is asked for, by the lanes together; waiting for it is a barrier of the SIMD group.
enum class simdgroup_async_copy_clamp_mode { clamp_to_zero = 0, clamp_to_edge = 1 };
struct simdgroup_event {
  template <class T>
  METAL_INLINE void async_copy(threadgroup T* to, const device T* from, ulong count) {
    copy(to, from, count);
  }
  template <class T>
  METAL_INLINE void async_copy(device T* to, const threadgroup T* from, ulong count) {
    copy(to, from, count);
  }
  template <class T>
  METAL_INLINE void async_copy(
      threadgroup T* to, ulong to_per_row, ulong2 to_tile, const device T* from, ulong from_per_row, ulong2 from_tile,
      bool transposed = false, simdgroup_async_copy_clamp_mode = simdgroup_async_copy_clamp_mode::clamp_to_zero) {
    tile(to, to_per_row, to_tile, from, from_per_row, from_tile, transposed);
  }
  template <class T>
  METAL_INLINE void async_copy(
      device T* to, ulong to_per_row, ulong2 to_tile, const threadgroup T* from, ulong from_per_row, ulong2 from_tile,
      bool transposed = false) {
    tile(to, to_per_row, to_tile, from, from_per_row, from_tile, transposed);
  }
  static METAL_INLINE void wait(int, simdgroup_event*) { simt::simd_barrier(3); }

 private:
  template <class D, class S>
  static METAL_INLINE void copy(D* to, const S* from, ulong count) {
    for (ulong i = simt::lane(); i < count; i += SIMT_WIDTH) to[i] = from[i];
    simt::simd_barrier(3);
  }
  // Beyond the source's tile the destination gets zeros.
  template <class D, class S>
  static METAL_INLINE void tile(
      D* to, ulong to_per_row, ulong2 to_tile, const S* from, ulong from_per_row, ulong2 from_tile, bool transposed) {
    for (ulong i = simt::lane(); i < to_tile.x * to_tile.y; i += SIMT_WIDTH) {
      ulong x = i % to_tile.x, y = i / to_tile.x;
      ulong u = transposed ? y : x, v = transposed ? x : y;
      to[y * to_per_row + x] = u < from_tile.x && v < from_tile.y ? from[v * from_per_row + u] : (remove_cvref_t<D>)0;
    }
    simt::simd_barrier(3);
  }
};

}  // namespace metal
