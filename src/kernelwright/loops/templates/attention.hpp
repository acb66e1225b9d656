// Attention by an online softmax: out = softmax(scale q k^T + mask) v, float32, any sizes, any strides but the last.
//
// A task is ROWS queries of one head. Queries are the lanes of a vector, so that a maximum or a sum over keys is an
// ordinary vector operation, and keys and values are read as they lie, one number at a time, broadcast to all lanes:
// nothing is packed but the few queries. Keys come in blocks whose scores stay in the first-level cache.
//
//   queries    [HEAD][ROWS]    transposed, times scale log2(e): the exponential is a power of two
//   scores     [BLOCK][ROWS]   then the powers
//   sums       [VALUE][ROWS]   of powers times values, rescaled when a block raises a row's maximum
//
// A mask is added, or says by bytes which scores are kept. Queries' heads may share those of keys and values.
//
// NaN in a row of q, in k or in v spreads as in PyTorch; a row whose scores are all -inf is NaN, or under a mask zero.
// Source of the method: Milakov and Gimelshein 2018 (arXiv 1805.02867); Dao et al. 2022 (arXiv 2205.14135).
namespace attention {

// KEYS, or COMPONENTS of v, are summed at once: twice as many sums in flight hide the latency of 4, and with two vectors
// and a broadcast number beside them they must fit the registers, of which AVX2 has 16 (components of 8 at once took a
// fifth longer there).
#if defined(__AVX512F__)
constexpr int LANES = 16, KEYS = 4, COMPONENTS = 8;
#elif defined(__AVX2__)
constexpr int LANES = 8, KEYS = 6, COMPONENTS = 4;
#elif defined(__aarch64__)
constexpr int LANES = 4, KEYS = 4, COMPONENTS = 8;
#else
constexpr int LANES = 4, KEYS = 6, COMPONENTS = 4;
#endif
typedef float Vector __attribute__((ext_vector_type(LANES)));
typedef int32 Integers __attribute__((ext_vector_type(LANES)));

// Two vectors of queries: each broadcast number then serves two fused operations.
constexpr int ROWS = 2 * LANES;
// 128 keys of 32 rows are 16 kB of scores.
constexpr int BLOCK = 128;

#define ATTENTION_INLINE static inline __attribute__((always_inline))

struct Pair {
    Vector low, high;
};

ATTENTION_INLINE Pair load(const float* from) {
    Pair pair;
    __builtin_memcpy(&pair, from, sizeof(pair));
    return pair;
}
ATTENTION_INLINE void store(float* to, Pair pair) { __builtin_memcpy(to, &pair, sizeof(pair)); }
ATTENTION_INLINE Pair both(float x) { return {Vector(x), Vector(x)}; }
ATTENTION_INLINE Pair operator*(Pair a, Pair b) { return {a.low * b.low, a.high * b.high}; }
ATTENTION_INLINE Pair operator+(Pair a, Pair b) { return {a.low + b.low, a.high + b.high}; }
ATTENTION_INLINE Pair operator-(Pair a, Pair b) { return {a.low - b.low, a.high - b.high}; }
ATTENTION_INLINE Pair fma(float a, Pair b, Pair c) {
    return {__builtin_elementwise_fma(Vector(a), b.low, c.low), __builtin_elementwise_fma(Vector(a), b.high, c.high)};
}
ATTENTION_INLINE Pair larger(Pair a, Pair b) {  // of a number and NaN, the number
    return {__builtin_elementwise_max(a.low, b.low), __builtin_elementwise_max(a.high, b.high)};
}

// 2^x for x <= 0, to 2 ulp; 0 where it would be subnormal; NaN of NaN. The polynomial is the minimax one of degree 6
// for 2^f on [-1/2, 1/2] (relative error 1.9e-9).
ATTENTION_INLINE Vector power_of_two(Vector x) {
    Vector shifted = x + Vector(12582912.0f);  // 1.5 * 2^23: the nearest integer now stands in the low bits
    Vector f = x - (shifted - Vector(12582912.0f));
    Vector p = Vector(1.534581242594868e-4f);
    p = __builtin_elementwise_fma(p, f, Vector(1.3399930903688073e-3f));
    p = __builtin_elementwise_fma(p, f, Vector(9.618489071726799e-3f));
    p = __builtin_elementwise_fma(p, f, Vector(5.550328642129898e-2f));
    p = __builtin_elementwise_fma(p, f, Vector(0.24022646248340607f));
    p = __builtin_elementwise_fma(p, f, Vector(0.6931471824645996f));
    p = __builtin_elementwise_fma(p, f, Vector(1.0f));
    Integers exponent = (__builtin_bit_cast(Integers, shifted) << 23) + Integers(0x3f800000);
    Vector power = p * __builtin_bit_cast(Vector, exponent);
    return x < Vector(-126.0f) ? Vector(0.0f) : power;
}
ATTENTION_INLINE Pair power_of_two(Pair x) { return {power_of_two(x.low), power_of_two(x.high)}; }

// scores[key][row] = sum over d of k[key][d] * queries[d][row], for COUNT keys.
template <int HEAD, int COUNT>
ATTENTION_INLINE void score(float* scores, const float* k, int64 k_row, const float* queries) {
    Pair sums[COUNT];
#pragma clang loop unroll(full)
    for (int key = 0; key < COUNT; ++key) sums[key] = both(0.0f);
#pragma clang loop unroll_count(4)
    for (int d = 0; d < HEAD; ++d) {
        Pair query = load(queries + d * ROWS);
#pragma clang loop unroll(full)
        for (int key = 0; key < COUNT; ++key) sums[key] = fma(k[key * k_row + d], query, sums[key]);
    }
#pragma clang loop unroll(full)
    for (int key = 0; key < COUNT; ++key) store(scores + key * ROWS, sums[key]);
}

// sums[d][row] = sums[d][row] * keep[row] + sum over keys of powers[key][row] * v[key][d], for COUNT components d.
template <int COUNT>
ATTENTION_INLINE void gather(float* sums, const float* v, int64 v_row, const float* powers, int64 keys, Pair keep) {
    Pair total[COUNT];
#pragma clang loop unroll(full)
    for (int d = 0; d < COUNT; ++d) total[d] = load(sums + d * ROWS) * keep;
#pragma clang loop unroll_count(2)
    for (int64 key = 0; key < keys; ++key) {
        Pair power = load(powers + key * ROWS);
#pragma clang loop unroll(full)
        for (int d = 0; d < COUNT; ++d) total[d] = fma(v[key * v_row + d], power, total[d]);
    }
#pragma clang loop unroll(full)
    for (int d = 0; d < COUNT; ++d) store(sums + d * ROWS, total[d]);
}

// Scores of keys after the query of their lane become -inf. `first` is the first row's place less the first key's.
ATTENTION_INLINE void hide_later(float* scores, int64 keys, int64 first) {
    for (int64 key = first + 1 > 0 ? first + 1 : 0; key < keys; ++key)
        for (int row = 0; row < ROWS && first + row < key; ++row) scores[key * ROWS + row] = -math::INF;
}

// A mask of one head: which element belongs to a query and a key.
template <typename Element>
struct Mask {
    const Element* first;
    int64 row, key;
};
struct NoMask {};

// Whether bytes say that all keys are kept for a query.
ATTENTION_INLINE bool all_kept(const uint8* mask, int64 key_step, int64 keys) {
    uint8 least = 1;
    if (key_step == 1) {
        for (int64 key = 0; key < keys; ++key) least = mask[key] < least ? mask[key] : least;
        return least;
    }
    for (int64 key = 0; key < keys; ++key) least &= mask[key * key_step];
    return least;
}

// Scores that are not kept become -inf. `mask` is that of the first key; rows beyond the last are the last's.
ATTENTION_INLINE void hide(float* scores, int64 keys, Mask<uint8> mask, int64 rows) {
    if (mask.row == 0) {
        if (all_kept(mask.first, mask.key, keys)) return;
        for (int64 key = 0; key < keys; ++key)
            if (!mask.first[key * mask.key]) store(scores + key * ROWS, both(-math::INF));
        return;
    }
    for (int row = 0; row < ROWS; ++row) {
        const uint8* kept = mask.first + (row < rows ? row : rows - 1) * mask.row;
        if (all_kept(kept, mask.key, keys)) continue;
        for (int64 key = 0; key < keys; ++key)
            if (!kept[key * mask.key]) scores[key * ROWS + row] = -math::INF;
    }
}

// What is added to a score, which is a power of two's exponent. The least finite number must not become -inf.
ATTENTION_INLINE float exponent(float added) {
    const float scaled = added * 1.4426950408889634f;
    return scaled == -math::INF && added != -math::INF ? -3.4028234664e38f : scaled;
}

ATTENTION_INLINE void hide(float* scores, int64 keys, Mask<float> mask, int64 rows) {
    if (mask.row == 0) {
        for (int64 key = 0; key < keys; ++key)
            store(scores + key * ROWS, load(scores + key * ROWS) + both(exponent(mask.first[key * mask.key])));
        return;
    }
    for (int row = 0; row < ROWS; ++row) {
        const float* added = mask.first + (row < rows ? row : rows - 1) * mask.row;
        for (int64 key = 0; key < keys; ++key) scores[key * ROWS + row] += exponent(added[key * mask.key]);
    }
}

ATTENTION_INLINE Vector finite(Vector x) { return x == Vector(-math::INF) ? Vector(0.0f) : x; }
ATTENTION_INLINE Vector not_zero(Vector x) { return x == Vector(0.0f) ? Vector(1.0f) : x; }

// One head's tensors: pointers to its first row, and the distance of rows.
struct Head {
    float* out;
    const float *q, *k, *v;
    int64 out_row, q_row, k_row, v_row;
};

template <int HEAD, int VALUE, bool CAUSAL, typename Masking>
static void attend(Head head, Masking mask, int64 begin, int64 rows, int64 keys, float scale) {
    constexpr bool MASKED = !__is_same(Masking, NoMask);
    alignas(64) float queries[HEAD * ROWS], sums[VALUE * ROWS], scores[BLOCK * ROWS];
    for (int row = 0; row < ROWS; ++row) {  // rows beyond the end repeat the last one and are not written
        const float* from = head.q + (begin + (row < rows ? row : rows - 1)) * head.q_row;
        for (int d = 0; d < HEAD; ++d) queries[d * ROWS + row] = from[d] * scale;
    }
    for (int i = 0; i < VALUE * ROWS; ++i) sums[i] = 0.0f;
    Pair peak = both(-math::INF), total = both(0.0f);
    const int64 seen = CAUSAL && begin + rows < keys ? begin + rows : keys;
    for (int64 first = 0; first < seen; first += BLOCK) {
        const int64 count = seen - first < BLOCK ? seen - first : BLOCK;
        const float* k = head.k + first * head.k_row;
        int64 key = 0;
        for (; key + KEYS <= count; key += KEYS)
            score<HEAD, KEYS>(scores + key * ROWS, k + key * head.k_row, head.k_row, queries);
        for (; key < count; ++key) score<HEAD, 1>(scores + key * ROWS, k + key * head.k_row, head.k_row, queries);
        if (CAUSAL && first + count > begin + 1) hide_later(scores, count, begin - first);
        if constexpr (MASKED)
            hide(scores, count, {mask.first + begin * mask.row + first * mask.key, mask.row, mask.key}, rows);
        Pair highest = peak;
        for (key = 0; key < count; ++key) highest = larger(highest, load(scores + key * ROWS));
        // Where all keys so far are hidden, -inf less -inf must not be NaN.
        const Pair base = MASKED ? Pair{finite(highest.low), finite(highest.high)} : highest;
        const Pair keep = power_of_two(peak - base);
        peak = highest;
        total = total * keep;
        for (key = 0; key < count; ++key) {
            Pair power = power_of_two(load(scores + key * ROWS) - base);
            total = total + power;
            store(scores + key * ROWS, power);
        }
        const float* v = head.v + first * head.v_row;
        int d = 0;
        for (; d + COMPONENTS <= VALUE; d += COMPONENTS)
            gather<COMPONENTS>(sums + d * ROWS, v + d, head.v_row, scores, count, keep);
        for (; d < VALUE; ++d) gather<1>(sums + d * ROWS, v + d, head.v_row, scores, count, keep);
    }
    if (MASKED) total = {not_zero(total.low), not_zero(total.high)};
    for (int d = 0; d < VALUE; ++d) {
        Pair sum = load(sums + d * ROWS);
        store(sums + d * ROWS, {sum.low / total.low, sum.high / total.high});
    }
    for (int64 row = 0; row < rows; ++row)
        for (int d = 0; d < VALUE; ++d) head.out[(begin + row) * head.out_row + d] = sums[d * ROWS + row];
}

// Where a (batch, head, row, component) tensor begins and how far its batches, heads and rows are apart, in elements.
struct Layout {
    int64 offset, batch, head, row;

    int64 at(int64 batch_index, int64 head_index) const {
        return offset + batch_index * batch + head_index * head;
    }
};

// Where a mask begins and how far its batches, heads, rows and keys are apart; 0 for those that share it.
template <typename Element>
struct MaskLayout {
    const Element* base;
    int64 offset, batch, head, row, key;

    Mask<Element> at(int64 batch_index, int64 head_index) const {
        return {base + offset + batch_index * batch + head_index * head, row, key};
    }
};
struct NoMaskLayout {
    NoMask at(int64, int64) const { return {}; }
};

// `shared` heads of queries have one of keys and values.
template <int HEAD, int VALUE, bool CAUSAL, typename Masks>
static void run(float* out, Layout outs, const float* q, Layout qs, const float* k, Layout ks, const float* v,
                Layout vs, Masks masks, int64 batches, int64 heads, int64 shared, int64 queries, int64 keys,
                double scale) {
    const int64 blocks = (queries + ROWS - 1) / ROWS;
    const float scale_log2 = float(scale * 1.4426950408889634);
    parallel_for(batches * heads * blocks, 1, [=](int64 begin, int64 end) {
        for (int64 task = begin; task < end; ++task) {
            // Causal rows grow longer towards the end; dealing them out from both ends keeps contiguous shares even.
            const int64 place = task % blocks;
            const int64 block = !CAUSAL ? place : place % 2 ? blocks - 1 - place / 2 : place / 2;
            const int64 head = task / blocks % heads, batch = task / blocks / heads, source = head / shared;
            const int64 first = block * ROWS, rows = queries - first < ROWS ? queries - first : ROWS;
            attend<HEAD, VALUE, CAUSAL>({out + outs.at(batch, head), q + qs.at(batch, head), k + ks.at(batch, source),
                                         v + vs.at(batch, source), outs.row, qs.row, ks.row, vs.row},
                                        masks.at(batch, head), first, rows, keys, scale_log2);
        }
    });
}

}  // namespace attention
