// Scans along one axis: out[i] joins x[0..i], or what lies before i alone (EXCLUSIVE), or from the end (REVERSE).
//
//   x, mask, out  [outer][n][inner]
//
// Totals are kept in double, as PyTorch keeps them. With inner == 1 a row is scanned in vectors of eight, each by three
// shifted joins and one with what came before; otherwise the axis is walked once, whole lines of `inner` at a time.
namespace scan {

#define SCAN_INLINE static inline __attribute__((always_inline))
#define SCAN_INLINE_MEMBER inline __attribute__((always_inline))

template <class T> struct Wide { typedef double Type; };
template <> struct Wide<int32> { typedef int64 Type; };
template <> struct Wide<int64> { typedef int64 Type; };
template <> struct Wide<uint8> { typedef int64 Type; };

struct Sum {
    static constexpr int neutral = 0;
    template <class W> SCAN_INLINE W join(W a, W b) { return a + b; }
};
struct Product {
    static constexpr int neutral = 1;
    template <class W> SCAN_INLINE W join(W a, W b) { return a * b; }
};

constexpr int64 LANES = 8;
constexpr int64 COLUMNS = 256;

// Every lane joined with all before it (or after it).
template <class Join, bool REVERSE, class V> SCAN_INLINE V within(V v, V none) {
    if (REVERSE) {
        v = Join::join(v, __builtin_shufflevector(v, none, 1, 2, 3, 4, 5, 6, 7, 8));
        v = Join::join(v, __builtin_shufflevector(v, none, 2, 3, 4, 5, 6, 7, 8, 9));
        return Join::join(v, __builtin_shufflevector(v, none, 4, 5, 6, 7, 8, 9, 10, 11));
    }
    v = Join::join(v, __builtin_shufflevector(v, none, 8, 0, 1, 2, 3, 4, 5, 6));
    v = Join::join(v, __builtin_shufflevector(v, none, 8, 9, 0, 1, 2, 3, 4, 5));
    return Join::join(v, __builtin_shufflevector(v, none, 8, 9, 10, 11, 0, 1, 2, 3));
}

// Eight numbers in the wide type.
template <class V, class T> SCAN_INLINE V eight(const T* from) {
    if constexpr (__is_same(T, half) || __is_same(T, bfloat16)) {
        V v;
#pragma clang loop unroll(full)
        for (int64 lane = 0; lane < LANES; ++lane) v[lane] = float(from[lane]);
        return v;
    } else {
        typedef T Narrow __attribute__((ext_vector_type(LANES)));
        Narrow narrow;
        __builtin_memcpy(&narrow, from, sizeof(T) * LANES);
        return __builtin_convertvector(narrow, V);
    }
}
template <class V, class O> SCAN_INLINE void put(O* to, V v) {
    if constexpr (__is_same(O, half) || __is_same(O, bfloat16)) {
#pragma clang loop unroll(full)
        for (int64 lane = 0; lane < LANES; ++lane) to[lane] = O(float(v[lane]));
    } else {
        typedef O Narrow __attribute__((ext_vector_type(LANES)));
        Narrow narrow = __builtin_convertvector(v, Narrow);
        __builtin_memcpy(to, &narrow, sizeof(narrow));
    }
}

// What is scanned: an element, or eight of them.
template <class T> struct Plain {
    const T* x;
    template <class W> SCAN_INLINE_MEMBER W one(int64 i) const { return W(x[i]); }
    template <class V> SCAN_INLINE_MEMBER V many(int64 i) const { return eight<V>(x + i); }
};
// x times a mask of zeros and ones: a product, so that an infinity that is masked out is NaN as it is in PyTorch.
template <class T> struct Masked {
    const T* x;
    const uint8* mask;
    template <class W> SCAN_INLINE_MEMBER W one(int64 i) const { return W(x[i]) * W(mask[i] != 0); }
    template <class V> SCAN_INLINE_MEMBER V many(int64 i) const { return eight<V>(x + i) * eight<V>(mask + i); }
};

template <class W, class Join, bool REVERSE, bool EXCLUSIVE, class O, class Source>
SCAN_INLINE void row(O* out, int64 n, int64 start, const Source& source) {
    typedef W V __attribute__((ext_vector_type(LANES)));
    const V none = V(W(Join::neutral));
    V total = none;
    int64 whole = n / LANES * LANES;
    auto one = [&](int64 i) __attribute__((always_inline)) {
        W before = total[0], joined = Join::join(before, source.template one<W>(start + i));
        out[i] = O(EXCLUSIVE ? before : joined);
        total = V(joined);
    };
    if (REVERSE)
        for (int64 i = n - 1; i >= whole; --i) one(i);
    for (int64 block = 0; block < whole / LANES; ++block) {
        int64 first = REVERSE ? whole - (block + 1) * LANES : block * LANES;
        V inside = within<Join, REVERSE>(source.template many<V>(start + first), none);
        V v = Join::join(total, inside);
        if (EXCLUSIVE) {
            v = REVERSE ? __builtin_shufflevector(v, total, 1, 2, 3, 4, 5, 6, 7, 8)
                        : __builtin_shufflevector(v, total, 8, 0, 1, 2, 3, 4, 5, 6);
        }
        total = Join::join(total, V(inside[REVERSE ? 0 : LANES - 1]));
        put(out + first, v);
    }
    if (!REVERSE)
        for (int64 i = whole; i < n; ++i) one(i);
}

template <class W, class Join, bool REVERSE, bool EXCLUSIVE, class O, class Source>
SCAN_INLINE void lines(O* __restrict out, int64 n, int64 inner, int64 width, int64 start, const Source& source) {
    alignas(64) W totals[COLUMNS];
    for (int64 i = 0; i < width; ++i) totals[i] = W(Join::neutral);
    for (int64 step = 0; step < n; ++step) {
        int64 at = (REVERSE ? n - 1 - step : step) * inner;
#pragma clang loop vectorize(assume_safety)
        for (int64 i = 0; i < width; ++i) {
            W joined = Join::join(totals[i], source.template one<W>(start + at + i));
            out[at + i] = O(EXCLUSIVE ? totals[i] : joined);
            totals[i] = joined;
        }
    }
}

template <class W, class Join, bool REVERSE, bool EXCLUSIVE, class O, class Source>
SCAN_INLINE void run(O* __restrict out, int64 outer, int64 n, int64 inner, const Source& source) {
    int64 blocks = inner == 1 ? 1 : (inner + COLUMNS - 1) / COLUMNS;
    int64 work = n * (inner < COLUMNS ? inner : COLUMNS);
    parallel_for(outer * blocks, 16384 / (work + 1) + 1, [=](int64 begin, int64 end) {
        for (int64 task = begin; task < end; ++task) {
            int64 column = task % blocks * COLUMNS, start = task / blocks * n * inner + column;
            int64 width = inner - column < COLUMNS ? inner - column : COLUMNS;
            if (inner == 1) {
                row<W, Join, REVERSE, EXCLUSIVE>(out + start, n, start, source);
            } else {
                lines<W, Join, REVERSE, EXCLUSIVE>(out + start, n, inner, width, start, source);
            }
        }
    });
}

template <class O, class T, class Join, bool REVERSE, bool EXCLUSIVE>
SCAN_INLINE void along(O* out, const T* x, int64 outer, int64 n, int64 inner) {
    run<typename Wide<T>::Type, Join, REVERSE, EXCLUSIVE>(out, outer, n, inner, Plain<T>{x});
}

template <class O, class T, class Join, bool REVERSE, bool EXCLUSIVE>
SCAN_INLINE void masked(O* out, const T* x, const uint8* mask, int64 outer, int64 n, int64 inner) {
    run<typename Wide<T>::Type, Join, REVERSE, EXCLUSIVE>(out, outer, n, inner, Masked<T>{x, mask});
}

#undef SCAN_INLINE
#undef SCAN_INLINE_MEMBER

}  // namespace scan
