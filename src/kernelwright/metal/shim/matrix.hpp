// matrix<T, C, R>: C columns of R elements (specification 2.3).
#pragma once

#include "math.hpp"

namespace metal {

template <class T, int C, int R>
struct matrix {
  vec<T, R> columns[C];

  METAL_INLINE matrix() = default;
  // A scalar stands on the diagonal.
  METAL_INLINE constexpr explicit matrix(T diagonal) {
    for (int c = 0; c < C; ++c)
      for (int r = 0; r < R; ++r) columns[c].e[r] = c == r ? diagonal : (T)0;
  }
  template <class... V, enable_if_t<(sizeof...(V) == C && C > 1 && (shim::vector<V> && ...)), int> = 0>
  METAL_INLINE constexpr matrix(const V&... column) : columns{vec<T, R>(column)...} {}
  template <class... S, enable_if_t<(sizeof...(S) == C * R && (shim::scalar<S> && ...)), int> = 0>
  METAL_INLINE constexpr matrix(const S&... element) {
    T all[C * R] = {(T)element...};
    for (int i = 0; i < C * R; ++i) columns[i / R].e[i % R] = all[i];
  }
  template <class U, enable_if_t<!__is_same(U, T), int> = 0>
  METAL_INLINE constexpr explicit matrix(const matrix<U, C, R>& m) {
    for (int c = 0; c < C; ++c) columns[c] = vec<T, R>(m.columns[c]);
  }
  METAL_INLINE constexpr vec<T, R>& operator[](int c) { return columns[c]; }
  METAL_INLINE constexpr const vec<T, R>& operator[](int c) const { return columns[c]; }
};

#define METAL_MATRIX_OPERATOR(op) \
  template <class T, int C, int R> \
  METAL_INLINE constexpr matrix<T, C, R> operator op(const matrix<T, C, R>& a, const matrix<T, C, R>& b) { \
    matrix<T, C, R> r; \
    for (int c = 0; c < C; ++c) r.columns[c] = a.columns[c] op b.columns[c]; \
    return r; \
  } \
  template <class T, int C, int R> \
  METAL_INLINE constexpr matrix<T, C, R>& operator op##=(matrix<T, C, R>& a, const matrix<T, C, R>& b) { \
    return a = a op b; \
  }
METAL_MATRIX_OPERATOR(+)
METAL_MATRIX_OPERATOR(-)
#undef METAL_MATRIX_OPERATOR
template <class T, int C, int R>
METAL_INLINE constexpr matrix<T, C, R> operator-(const matrix<T, C, R>& a) {
  matrix<T, C, R> r;
  for (int c = 0; c < C; ++c) r.columns[c] = -a.columns[c];
  return r;
}
template <class T, int C, int R, class S, enable_if_t<shim::scalar<S>, int> = 0>
METAL_INLINE constexpr matrix<T, C, R> operator*(const matrix<T, C, R>& a, S s) {
  matrix<T, C, R> r;
  for (int c = 0; c < C; ++c) r.columns[c] = a.columns[c] * (T)s;
  return r;
}
template <class T, int C, int R, class S, enable_if_t<shim::scalar<S>, int> = 0>
METAL_INLINE constexpr matrix<T, C, R> operator*(S s, const matrix<T, C, R>& a) {
  return a * s;
}
template <class T, int C, int R, class S, enable_if_t<shim::scalar<S>, int> = 0>
METAL_INLINE constexpr matrix<T, C, R>& operator*=(matrix<T, C, R>& a, S s) {
  return a = a * s;
}
template <class T, int C, int R>
METAL_INLINE constexpr vec<T, R> operator*(const matrix<T, C, R>& a, const vec<T, C>& v) {
  vec<T, R> r = a.columns[0] * v.e[0];
  for (int c = 1; c < C; ++c) r = fma(a.columns[c], vec<T, R>(v.e[c]), r);
  return r;
}
template <class T, int C, int R>
METAL_INLINE constexpr vec<T, C> operator*(const vec<T, R>& v, const matrix<T, C, R>& a) {
  vec<T, C> r;
  for (int c = 0; c < C; ++c) r.e[c] = dot(v, a.columns[c]);
  return r;
}
template <class T, int C, int R, int K>
METAL_INLINE constexpr matrix<T, C, R> operator*(const matrix<T, K, R>& a, const matrix<T, C, K>& b) {
  matrix<T, C, R> r;
  for (int c = 0; c < C; ++c) r.columns[c] = a * b.columns[c];
  return r;
}
template <class T, int C, int R>
METAL_INLINE constexpr matrix<T, R, C> transpose(const matrix<T, C, R>& a) {
  matrix<T, R, C> r;
  for (int c = 0; c < C; ++c)
    for (int i = 0; i < R; ++i) r.columns[i].e[c] = a.columns[c].e[i];
  return r;
}
template <class T, int N>
METAL_INLINE constexpr T determinant(const matrix<T, N, N>& a) {
  if constexpr (N == 2)
    return a[0].x * a[1].y - a[1].x * a[0].y;
  else {
    T sum = 0;
    for (int c = 0; c < N; ++c) {
      matrix<T, N - 1, N - 1> minor;
      for (int k = 0, to = 0; k < N; ++k)
        if (k != c) {
          for (int r = 1; r < N; ++r) minor.columns[to].e[r - 1] = a.columns[k].e[r];
          ++to;
        }
      sum += (c % 2 ? -a.columns[c].e[0] : a.columns[c].e[0]) * determinant(minor);
    }
    return sum;
  }
}

}  // namespace metal

#define METAL_MATRIX_NAMES(T, name) \
  using name##2x2 = metal::matrix<T, 2, 2>; \
  using name##2x3 = metal::matrix<T, 2, 3>; \
  using name##2x4 = metal::matrix<T, 2, 4>; \
  using name##3x2 = metal::matrix<T, 3, 2>; \
  using name##3x3 = metal::matrix<T, 3, 3>; \
  using name##3x4 = metal::matrix<T, 3, 4>; \
  using name##4x2 = metal::matrix<T, 4, 2>; \
  using name##4x3 = metal::matrix<T, 4, 3>; \
  using name##4x4 = metal::matrix<T, 4, 4>; \
  namespace metal { \
  using ::name##2x2; \
  using ::name##2x3; \
  using ::name##2x4; \
  using ::name##3x2; \
  using ::name##3x3; \
  using ::name##3x4; \
  using ::name##4x2; \
  using ::name##4x3; \
  using ::name##4x4; \
  }
METAL_MATRIX_NAMES(float, float)
METAL_MATRIX_NAMES(_Float16, half)
METAL_MATRIX_NAMES(__bf16, bfloat)
#undef METAL_MATRIX_NAMES
