// The grid on an NVIDIA GPU. Included by simt.hpp where SIMT_CUDA is set; compiled as C++ for the GPU, in clang's SYCL mode
// for its address spaces: a pointer of a named space converts to a plain one, and group variables are in shared memory.
//
// A SIMD group is a warp, but its lanes are numbered anew: lane l is the warp's thread t whose five bits are
// l4 l2 l1 l3 l0. So a matrix in Apple's layout lies in registers as mma.sync wants it, and nothing has to move for the
// first operand and the sum. The threads of a warp stay together, so memory sees the same addresses.
//
// Blocks have one dimension and whole warps; threads beyond the group's real size end at once.
#pragma once

static_assert(SIMT_WIDTH == 32, "a warp has 32 lanes");

namespace simt {

constexpr u32 kMaxArguments = 32;

// One launch, written by Python (cuda.py mirrors it), in the kernel's own parameter memory.
struct Launch {
  void* buffers[kMaxArguments];
  u32 group_memory[kMaxArguments];
  Position grid, group, groups;
};

namespace warp {

SIMT_INLINE u32 physical(u32 l) { return (l & 17) | (l >> 1 & 3) << 2 | (l >> 3 & 1) << 1; }
SIMT_INLINE u32 logical(u32 t) { return (t & 17) | (t >> 2 & 3) << 1 | (t >> 1 & 1) << 3; }

// The same for a mask of lanes: two exchanges of bits of the index.
SIMT_INLINE u32 logical_mask(u32 m) {
  u32 x = (m >> 6 ^ m) & 0x00cc00cc;
  m ^= x ^ x << 6;
  x = (m >> 2 ^ m) & 0x0c0c0c0c;
  return m ^ x ^ x << 2;
}

SIMT_INLINE u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
// The threads of the warp that came here together, by the warp's own numbers.
SIMT_INLINE u32 together() { return __nvvm_activemask(); }

// `move` for each word of a value. Words that no type fills are moved all the same.
template <class T, class F>
SIMT_INLINE T by_words(T v, F move) {
  constexpr u32 words = (sizeof(T) + 3) / 4;
  int w[words] = {};
  __builtin_memcpy(w, &v, sizeof(T));
  for (u32 i = 0; i < words; i++) w[i] = move(w[i]);
  T r;
  __builtin_memcpy(&r, w, sizeof(T));
  return r;
}
// What thread `from` of the warp (its own number) holds.
template <class T>
SIMT_INLINE T read(T v, u32 from, u32 mask) {
  return by_words(v, [=](int word) { return __nvvm_shfl_sync_idx_i32(mask, word, from, 31); });
}
// What the thread holds whose number differs in the bits of `other`.
template <class T>
SIMT_INLINE T exchange(T v, u32 other, u32 mask) {
  return by_words(v, [=](int word) { return __nvvm_shfl_sync_bfly_i32(mask, word, other, 31); });
}

}  // namespace warp

extern "C" __attribute__((opencl_local)) __attribute__((aligned(16))) char simt_dynamic_memory[];

inline u32 simd_width() { return 32; }
SIMT_INLINE u32 thread_index() { return (warp::thread() & ~31u) | warp::logical(warp::thread() & 31); }
SIMT_INLINE u32 lane() { return warp::logical(warp::thread() & 31); }
SIMT_INLINE u32 simd_index() { return warp::thread() / 32; }
SIMT_INLINE u32 quad_lane() { return thread_index() & 3; }
SIMT_INLINE u32 quad_index() { return thread_index() / 4; }

SIMT_INLINE void group_barrier(u32 = 0) { __syncthreads(); }
SIMT_INLINE void simd_barrier(u32 = 0) { __nvvm_bar_warp_sync(0xffffffff); }
SIMT_INLINE void fence(int = 0, int scope = 0) {
  if (scope <= 2)
    __nvvm_membar_cta();
  else
    __nvvm_membar_gl();
}

template <class T>
SIMT_INLINE T shuffle(T v, u32 to) {
  return warp::read(v, warp::physical(to & 31), warp::together());
}
template <class T>
SIMT_INLINE T shuffle_xor(T v, u32 mask) {
  return shuffle(v, lane() ^ mask);
}
template <class T>
SIMT_INLINE T shuffle_up(T v, u32 n) {
  u32 l = lane();
  return shuffle(v, l >= n ? l - n : l);
}
template <class T>
SIMT_INLINE T shuffle_down(T v, u32 n) {
  u32 l = lane();
  return shuffle(v, l + n < 32 ? l + n : l);
}
template <class T>
SIMT_INLINE T rotate_up(T v, u32 n) {
  return shuffle(v, (lane() - n) & 31);
}
template <class T>
SIMT_INLINE T rotate_down(T v, u32 n) {
  return shuffle(v, (lane() + n) & 31);
}
template <class T>
SIMT_INLINE T broadcast(T v, u32 from) {
  return shuffle(v, from);
}
SIMT_INLINE u64 active_lanes() { return warp::logical_mask(warp::together()); }
SIMT_INLINE u64 ballot(bool b) { return warp::logical_mask(__nvvm_vote_ballot_sync(warp::together(), b)); }
template <class T>
SIMT_INLINE T broadcast_first(T v) {
  u32 mask = warp::together();
  return warp::read(v, warp::physical(__builtin_ctz(warp::logical_mask(mask))), mask);
}
template <class T>
SIMT_INLINE T shuffle_fill_up(T v, T fill, u32 n, u32 modulo = 32) {
  u32 base = lane() & ~(modulo - 1), at = lane() & (modulo - 1);
  T inside = shuffle(v, base + ((at - n) & (modulo - 1)));
  T outside = shuffle(fill, base + ((at - n) & (modulo - 1)));
  return at >= n ? inside : outside;
}
template <class T>
SIMT_INLINE T shuffle_fill_down(T v, T fill, u32 n, u32 modulo = 32) {
  u32 base = lane() & ~(modulo - 1), at = lane() & (modulo - 1);
  T inside = shuffle(v, base + ((at + n) & (modulo - 1)));
  T outside = shuffle(fill, base + ((at + n) & (modulo - 1)));
  return at + n < modulo ? inside : outside;
}

// All lanes: a butterfly, joined in the order of cpu.hpp's tree. Some lanes: one after the other.
template <class Op, class T>
SIMT_INLINE T reduce(T v) {
  u32 mask = warp::together();
  if (mask == 0xffffffff) {
    for (u32 half = 16; half; half /= 2) {
      T other = warp::exchange(v, warp::physical(half), mask);
      v = Op::join(v, other);
    }
    return v;
  }
  T result = v;
  bool any = false;
  u32 lanes = warp::logical_mask(mask);
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    T other = warp::read(v, warp::physical(__builtin_ctz(rest)), mask);
    result = any ? Op::join(result, other) : other;
    any = true;
  }
  return result;
}
template <class Op, class T>
SIMT_INLINE T scan_inclusive(T v) {
  u32 mask = warp::together(), l = lane();
  if (mask == 0xffffffff) {
    for (u32 n = 1; n < 32; n *= 2) {
      T other = warp::read(v, warp::physical((l - n) & 31), mask);
      if (l >= n) v = Op::join(other, v);
    }
    return v;
  }
  T result = v;
  bool any = false;
  for (u32 rest = warp::logical_mask(mask); rest; rest &= rest - 1) {
    u32 i = __builtin_ctz(rest);
    T other = warp::read(v, warp::physical(i), mask);
    if (i <= l) result = any ? Op::join(result, other) : other, any = true;
  }
  return result;
}
template <class Op, class T>
SIMT_INLINE T scan_exclusive(T v, T first) {
  u32 mask = warp::together(), l = lane();
  T until = scan_inclusive<Op>(v);
  u32 before = warp::logical_mask(mask) & ((1u << l) - 1);
  T other = warp::read(until, before ? warp::physical(31 - __builtin_clz(before)) : 0, mask);
  return before ? other : first;
}

namespace warp {

SIMT_INLINE u32 bits(float v) { return __builtin_bit_cast(u32, v); }
// Rounds to the ten bits of mantissa that the tensor cores take.
SIMT_INLINE u32 tf32(float v) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
}
// An 8 x 8 matrix of 16-bit elements, two a thread, transposed.
SIMT_INLINE u32 transposed(u32 v) {
  u32 r;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(v));
  return r;
}

// The products of matrices are written down as they are; mma.py makes tensor instructions of them, several in one.

// Three products of rounded parts carry float's accuracy but for its last bits: a = high + low, b = high + low, and
// low * low is too small to see.
SIMT_INLINE Pair multiply_f32(float a0, float a1, float b0, float b1, Pair c) {
  u32 highs = bits(b0) >> 16 | (bits(b1) & 0xffff0000), lows = (bits(b0) & 0xffff) | bits(b1) << 16;
  highs = transposed(highs), lows = transposed(lows);
  float t0 = __builtin_bit_cast(float, highs << 16 | (lows & 0xffff));
  float t1 = __builtin_bit_cast(float, (highs & 0xffff0000) | lows >> 16);
  u32 a0_high = tf32(a0), a1_high = tf32(a1), b0_high = tf32(t0), b1_high = tf32(t1);
  u32 a0_low = tf32(a0 - __builtin_bit_cast(float, a0_high)), a1_low = tf32(a1 - __builtin_bit_cast(float, a1_high));
  u32 b0_low = tf32(t0 - __builtin_bit_cast(float, b0_high)), b1_low = tf32(t1 - __builtin_bit_cast(float, b1_high));
  Pair d;
  asm("simt.product.tf32 {%0, %1}, {%2, %3, %4, %5}, {%6, %7, %8, %9}, {%10, %11};"
      : "=f"(d.x), "=f"(d.y)
      : "r"(a0_high), "r"(a1_high), "r"(a0_low), "r"(a1_low), "r"(b0_high), "r"(b1_high), "r"(b0_low), "r"(b1_low),
        "f"(c.x), "f"(c.y));
  return d;
}

template <class T>
SIMT_INLINE u32 packed(T x, T y) {
  return u32(__builtin_bit_cast(u16, x)) | u32(__builtin_bit_cast(u16, y)) << 16;
}
template <class T>
SIMT_INLINE Pair multiply_16(T a0, T a1, T b0, T b1, Pair c) {
  u32 x = packed(a0, a1), y = transposed(packed(b0, b1));
  Pair d;
  if constexpr (__is_same(T, f16))
    asm("simt.product.f16 {%0, %1}, {%2}, {%3}, {%4, %5};" : "=f"(d.x), "=f"(d.y) : "r"(x), "r"(y), "f"(c.x), "f"(c.y));
  else
    asm("simt.product.bf16 {%0, %1}, {%2}, {%3}, {%4, %5};" : "=f"(d.x), "=f"(d.y) : "r"(x), "r"(y), "f"(c.x), "f"(c.y));
  return d;
}

// Whether the compiler sees that `v` was converted from a T, so that nothing is lost on the way back.
template <class T>
SIMT_INLINE bool is_from(float v) {
  bool same = bits(float(T(v))) == bits(v);
  return __builtin_constant_p(same) && same;
}

}  // namespace warp

// Kernels convert halves to float before they multiply; the product of halves is exact all the same, and eight times as
// fast. In the float product infinities come out as NaN: infinity - infinity is their low part.
template <class A, class B>
SIMT_INLINE Pair matrix_product(const A* a, const B* b, Pair c) {
  float a0 = float(a[0]), a1 = float(a[1]), b0 = float(b[0]), b1 = float(b[1]);
  if (warp::is_from<f16>(a0) && warp::is_from<f16>(a1) && warp::is_from<f16>(b0) && warp::is_from<f16>(b1))
    return warp::multiply_16(f16(a0), f16(a1), f16(b0), f16(b1), c);
  if (warp::is_from<bf16>(a0) && warp::is_from<bf16>(a1) && warp::is_from<bf16>(b0) && warp::is_from<bf16>(b1))
    return warp::multiply_16(bf16(a0), bf16(a1), bf16(b0), bf16(b1), c);
  return warp::multiply_f32(a0, a1, b0, b1, c);
}

// Aligned for the widest access: the compiler cannot raise it where pointers into it are stepped.
#define SIMT_GROUP static __attribute__((opencl_local, aligned(16)))

// What a kernel writes on a GPU is not read back.
SIMT_INLINE void log(const char*, u64) {}

}  // namespace simt
