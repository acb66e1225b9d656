// Exchange between the four lanes of a quad, on top of shuffles of the whole SIMD group. Included by simt.hpp.
#pragma once

namespace simt {

template <class T>
SIMT_INLINE T quad_shuffle(T v, u32 to) {
  return shuffle(v, (lane() & ~3u) + (to & 3));
}
template <class T>
SIMT_INLINE T quad_broadcast(T v, u32 to) {
  return quad_shuffle(v, to);
}
template <class T>
SIMT_INLINE T quad_shuffle_xor(T v, u32 mask) {
  return shuffle(v, lane() ^ (mask & 3));
}
template <class T>
SIMT_INLINE T quad_shuffle_up(T v, u32 n) {
  u32 at = lane() & 3;
  return shuffle(v, at >= n ? lane() - n : lane());
}
template <class T>
SIMT_INLINE T quad_shuffle_down(T v, u32 n) {
  u32 at = lane() & 3;
  return shuffle(v, at + n < 4 ? lane() + n : lane());
}
template <class T>
SIMT_INLINE T quad_rotate_up(T v, u32 n) {
  return quad_shuffle(v, (lane() - n) & 3);
}
template <class T>
SIMT_INLINE T quad_rotate_down(T v, u32 n) {
  return quad_shuffle(v, (lane() + n) & 3);
}
SIMT_INLINE u32 quad_ballot(bool b) { return u32(ballot(b) >> (lane() & ~3u)) & 15; }

// The active lanes of the quad, in their order.
template <class Op, class T>
SIMT_INLINE T quad_reduce(T v) {
  u32 active = u32(active_lanes() >> (lane() & ~3u)) & 15;
  T result = v;
  bool any = false;
  for (u32 i = 0; i < 4; i++) {
    T other = quad_shuffle(v, i);
    if (active >> i & 1) result = any ? Op::join(result, other) : other, any = true;
  }
  return result;
}
template <class Op, class T>
SIMT_INLINE T quad_scan_inclusive(T v) {
  u32 active = u32(active_lanes() >> (lane() & ~3u)) & 15;
  T result = v;
  bool any = false;
  for (u32 i = 0; i < 4; i++) {
    T other = quad_shuffle(v, i);
    if ((active >> i & 1) && i <= (lane() & 3)) result = any ? Op::join(result, other) : other, any = true;
  }
  return result;
}
template <class Op, class T>
SIMT_INLINE T quad_scan_exclusive(T v, T first) {
  u32 active = u32(active_lanes() >> (lane() & ~3u)) & 15;
  T result = first;
  for (u32 i = 0; i < 4; i++) {
    T other = quad_shuffle(v, i);
    if ((active >> i & 1) && i < (lane() & 3)) result = Op::join(result, other);
  }
  return result;
}

}  // namespace simt
