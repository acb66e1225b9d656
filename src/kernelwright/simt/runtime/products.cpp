// Products of 8 x 8 matrices over the lanes of a SIMD group. Linked to entries that use them.
#include "simt.hpp"

namespace simt {
namespace {

using f32x8 = float __attribute__((ext_vector_type(8)));

constexpr u32 kMost = 64;  // products in one meeting (matrices.py)

// What a lane gives for the products of one meeting: pairs of the different first operands, of the different second ones,
// then of the sums, which the results replace. Product i takes operands which[2 * i] and which[2 * i + 1].
struct Waiting {
  Pair* pairs;
  const u8* which;
  u16 count, firsts, seconds;
};

constexpr u32 row_of(u32 lane) { return (lane >> 4 & 1) * 4 + (lane >> 1) % 4; }
constexpr u32 column_of(u32 lane) { return (lane >> 3 & 1) * 4 + (lane & 1) * 2; }

using Matrix8 = float[8][8];

// Lanes come in Apple's layout; 64 lanes hold two sets of matrices.
SIMT_INLINE void gather(Matrix8& m, Pair* const* lists, u32 at) {
#pragma clang loop unroll(full)
  for (u32 l = 0; l < 32; l++) __builtin_memcpy(&m[row_of(l)][column_of(l)], &lists[l][at], 8);
}

// From an array over lanes for the first elements and one for the second; lanes that are not `present` count as zeros.
SIMT_INLINE void spread(Matrix8& m, const float* from, u32 present) {
#pragma clang loop unroll(full)
  for (u32 l = 0; l < 32; l++) {
    m[row_of(l)][column_of(l)] = present >> l & 1 ? from[l] : 0;
    m[row_of(l)][column_of(l) + 1] = present >> l & 1 ? from[SIMT_WIDTH + l] : 0;
  }
}

// c += a * b
void multiply(const Matrix8& a, const Matrix8& b, Matrix8& c) {
  f32x8 rows[8];
  for (u32 k = 0; k < 8; k++) rows[k] = *(f32x8*)b[k];
#pragma clang loop unroll(full)
  for (u32 r = 0; r < 8; r++) {
    f32x8 sum = *(f32x8*)c[r];
#pragma clang loop unroll(full)
    for (u32 k = 0; k < 8; k++) sum = __builtin_elementwise_fma((f32x8)a[r][k], rows[k], sum);
    *(f32x8*)c[r] = sum;
  }
}

// Lanes that are not there count as zeros.
void complete_products(Simd& s, u64 lanes) {
  Pair zeros[3 * kMost] = {};
  alignas(32) Matrix8 firsts[kMost], seconds[kMost];
  for (u32 half = 0; half < SIMT_WIDTH; half += 32) {
    Pair* lists[32];
    Waiting all{};
    for (u32 l = 0; l < 32; l++) {
      lists[l] = zeros;
      if (!(lanes >> (half + l) & 1)) continue;
      __builtin_memcpy(&all, s.in<sizeof all>(half + l), sizeof all);
      lists[l] = all.pairs;
    }
    for (u32 i = 0; i < all.firsts; i++) gather(firsts[i], lists, i);
    for (u32 i = 0; i < all.seconds; i++) gather(seconds[i], lists, all.firsts + i);
    for (u32 i = 0; i < all.count; i++) {
      u32 at = all.firsts + all.seconds + i;
      alignas(32) Matrix8 c;
      gather(c, lists, at);
      multiply(firsts[all.which[2 * i]], seconds[all.which[2 * i + 1]], c);
#pragma clang loop unroll(full)
      for (u32 l = 0; l < 32; l++) __builtin_memcpy(&lists[l][at], &c[row_of(l)][column_of(l)], 8);
    }
  }
}

SIMT_INLINE void meet_for(Waiting w, const void* site) {
  Fiber& f = fiber::self();
  __builtin_memcpy(f.simd->in<sizeof w>(f.lane), &w, sizeof w);
  simt_wait_at(&complete_products, site);
}

}  // namespace

extern "C" {

// Up to 64 products that do not need each other's results: one meeting of the lanes for all.
__attribute__((convergent, nomerge)) void simt_matrix_products(Pair* pairs, const u8* which, u32 count, u32 firsts,
                                                               u32 seconds) {
  meet_for({pairs, which, u16(count), u16(firsts), u16(seconds)}, __builtin_return_address(0));
}

__attribute__((convergent, nomerge)) Pair simt_matrix_product(float a0, float a1, float b0, float b1, float c0,
                                                              float c1) {
  static const u8 which[2] = {0, 0};
  Pair pairs[3] = {{a0, a1}, {b0, b1}, {c0, c1}};
  meet_for({pairs, which, 1, 1, 1}, __builtin_return_address(0));
  return pairs[2];
}

// The same in an entry cut into regions: number i of lane l lies at numbers[i * SIMT_WIDTH + l].
void simt_complete_products(float* numbers, const u8* which, u32 count, u32 firsts, u32 seconds, u64 lanes) {
  alignas(32) Matrix8 matrices[2 * kMost];
  for (u32 half = 0; half < SIMT_WIDTH; half += 32) {
    float* from = numbers + half;
    u32 present = u32(lanes >> half);
    for (u32 i = 0; i < firsts + seconds; i++) spread(matrices[i], from + 2 * i * SIMT_WIDTH, present);
    for (u32 i = 0; i < count; i++) {
      float* sums = from + 2 * (firsts + seconds + i) * SIMT_WIDTH;
      alignas(32) Matrix8 c;
      spread(c, sums, present);
      multiply(matrices[which[2 * i]], matrices[firsts + which[2 * i + 1]], c);
#pragma clang loop unroll(full)
      for (u32 l = 0; l < 32; l++)
        sums[l] = c[row_of(l)][column_of(l)], sums[SIMT_WIDTH + l] = c[row_of(l)][column_of(l) + 1];
    }
  }
}

}  // extern "C"
}  // namespace simt
