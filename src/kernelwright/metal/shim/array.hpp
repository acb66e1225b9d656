// array<T, N> (specification 2.13) and uniform<T> (2.12).
#pragma once

#include "types.hpp"

namespace metal {

template <class T, size_t N>
struct array {
  T items[N ? N : 1];
  METAL_INLINE constexpr T& operator[](size_t i) { return items[i]; }
  METAL_INLINE constexpr const T& operator[](size_t i) const { return items[i]; }
  METAL_INLINE constexpr size_t size() const { return N; }
  METAL_INLINE constexpr bool empty() const { return N == 0; }
  METAL_INLINE constexpr T* data() { return items; }
  METAL_INLINE constexpr const T* data() const { return items; }
  METAL_INLINE constexpr void fill(const T& value) {
    for (size_t i = 0; i < N; ++i) items[i] = value;
  }
};

template <class T>
struct uniform {
  T value;
  METAL_INLINE constexpr uniform() = default;
  METAL_INLINE constexpr uniform(T v) : value(v) {}
  METAL_INLINE constexpr operator T() const { return value; }
};
template <class T>
METAL_INLINE constexpr uniform<T> make_uniform(T value) {
  return value;
}

}  // namespace metal
