// Products of 8 x 8 matrices over the lanes of a SIMD group. Linked to entries that use them.
#include "simt.hpp"

namespace simt {
namespace {

using f32x8 = float __attribute__((ext_vector_type(8)));

// What a lane gives for one product and takes back, as merged by matrices.py: pairs of a, b, c; the result replaces c.
struct Operands {
  Pair a, b, c;
};
struct Waiting {
  Operands* list;
  u32 count;
};

constexpr u32 row_of(u32 lane) { return (lane >> 4 & 1) * 4 + (lane >> 1) % 4; }
constexpr u32 column_of(u32 lane) { return (lane >> 3 & 1) * 4 + (lane & 1) * 2; }

// Lanes come in Apple's layout; 64 lanes hold two sets of matrices.
void multiply(Operands* const* lists, u32 i) {
  alignas(32) float a[8][8], b[8][8], c[8][8];
#pragma clang loop unroll(full)
  for (u32 l = 0; l < 32; l++) {
    const Operands& o = lists[l][i];
    u32 row = row_of(l), column = column_of(l);
    __builtin_memcpy(&a[row][column], &o.a, 8);
    __builtin_memcpy(&b[row][column], &o.b, 8);
    __builtin_memcpy(&c[row][column], &o.c, 8);
  }
  f32x8 rows[8];
  for (u32 k = 0; k < 8; k++) rows[k] = *(f32x8*)b[k];
#pragma clang loop unroll(full)
  for (u32 r = 0; r < 8; r++) {
    f32x8 sum = *(f32x8*)c[r];
#pragma clang loop unroll(full)
    for (u32 k = 0; k < 8; k++) sum = __builtin_elementwise_fma((f32x8)a[r][k], rows[k], sum);
    *(f32x8*)c[r] = sum;
  }
#pragma clang loop unroll(full)
  for (u32 l = 0; l < 32; l++) __builtin_memcpy(&lists[l][i].c, &c[row_of(l)][column_of(l)], 8);
}

// Lanes that are not there count as zeros.
void complete_products(Simd& s, u64 lanes) {
  Operands zeros[64] = {};
  for (u32 half = 0; half < SIMT_WIDTH; half += 32) {
    Operands* lists[32];
    u32 count = 0;
    for (u32 l = 0; l < 32; l++) {
      bool there = lanes >> (half + l) & 1;
      Waiting w{};
      if (there) __builtin_memcpy(&w, s.in[half + l], sizeof w), count = w.count;
      lists[l] = there ? w.list : zeros;
    }
    for (u32 i = 0; i < count; i++) multiply(lists, i);
  }
}

}  // namespace

extern "C" {

// `count` products that do not need each other's results, at most 64: one meeting of the lanes for all.
__attribute__((convergent, nomerge)) void simt_matrix_products(Operands* list, u32 count) {
  Fiber& f = fiber::self();
  Waiting w{list, count};
  __builtin_memcpy(f.simd->in[f.lane], &w, sizeof w);
  simt_wait_at(&complete_products, __builtin_return_address(0));
}

__attribute__((convergent, nomerge)) Pair simt_matrix_product(float a0, float a1, float b0, float b1, float c0,
                                                              float c1) {
  Operands o{{a0, a1}, {b0, b1}, {c0, c1}};
  Fiber& f = fiber::self();
  Waiting w{&o, 1};
  __builtin_memcpy(f.simd->in[f.lane], &w, sizeof w);
  simt_wait_at(&complete_products, __builtin_return_address(0));
  return o.c;
}

}  // extern "C"
}  // namespace simt
