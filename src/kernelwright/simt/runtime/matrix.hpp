// 8 x 8 matrices over the lanes of a SIMD group. Included by simt.hpp.
//
// Lane l of 32 holds the elements (row, column) and (row, column + 1) in Apple's layout, which kernels rely on:
// row = (l / 16) * 4 + (l / 2) % 4, column = (l / 8) % 2 * 4 + (l % 2) * 2.
#pragma once

namespace simt {

template <class T>
struct Matrix {
  T element[2];

  static SIMT_INLINE u32 row() { return (lane() >> 4 & 1) * 4 + (lane() >> 1) % 4; }
  static SIMT_INLINE u32 column() { return (lane() >> 3 & 1) * 4 + (lane() & 1) * 2; }

  SIMT_INLINE void fill(T v) { element[0] = element[1] = v; }
  SIMT_INLINE void diagonal(T v) {
    u32 r = row(), c = column();
    element[0] = r == c ? v : T(0);
    element[1] = r == c + 1 ? v : T(0);
  }
  // `stride` in elements between rows of memory. Every lane touches its own two elements: nothing waits.
  template <class P>
  SIMT_INLINE void load(const P* p, i64 stride, bool transposed = false) {
    i64 r = row(), c = column();
    element[0] = T(transposed ? p[c * stride + r] : p[r * stride + c]);
    element[1] = T(transposed ? p[(c + 1) * stride + r] : p[r * stride + c + 1]);
  }
  template <class P>
  SIMT_INLINE void store(P* p, i64 stride, bool transposed = false) const {
    i64 r = row(), c = column();
    p[transposed ? c * stride + r : r * stride + c] = P(element[0]);
    p[transposed ? (c + 1) * stride + r : r * stride + c + 1] = P(element[1]);
  }
};

// a * b + c. Sums are formed in float and rounded to D at the end.
template <class D, class A, class B, class C>
SIMT_INLINE Matrix<D> multiply_accumulate(const Matrix<A>& a, const Matrix<B>& b, const Matrix<C>& c) {
  Pair d = matrix_product<A, B>(a.element, b.element, Pair{float(c.element[0]), float(c.element[1])});
  return {{D(d.x), D(d.y)}};
}

}  // namespace simt
