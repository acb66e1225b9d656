// The largest or smallest along one axis, with its place: the first of equals, and the first NaN before all.
//
//   x              [outer][n][inner]
//   values, index  [outer][inner]
//
// With inner == 1 a row is passed over twice: for the value, in vectors, and for its place, until it is found. Otherwise
// the axis is walked once, a line of best values and their places at a time.
namespace extreme {

#define EXTREME_INLINE static inline __attribute__((always_inline))

template <class T> struct Wide { typedef float Type; };
template <> struct Wide<double> { typedef double Type; };
template <> struct Wide<int32> { typedef int32 Type; };
template <> struct Wide<int64> { typedef int64 Type; };

template <bool LARGEST, class W> EXTREME_INLINE bool beats(W x, W best) {
    return (LARGEST ? x > best : x < best) | ((x != x) & (best == best));
}
EXTREME_INLINE float larger(float a, float b) { return __builtin_elementwise_maximum(a, b); }
EXTREME_INLINE double larger(double a, double b) { return __builtin_elementwise_maximum(a, b); }
EXTREME_INLINE float smaller(float a, float b) { return __builtin_elementwise_minimum(a, b); }
EXTREME_INLINE double smaller(double a, double b) { return __builtin_elementwise_minimum(a, b); }
template <class W> EXTREME_INLINE W larger(W a, W b) { return a > b ? a : b; }
template <class W> EXTREME_INLINE W smaller(W a, W b) { return a < b ? a : b; }

template <bool LARGEST, class T> EXTREME_INLINE typename Wide<T>::Type best_of(const T* x, int64 n) {
    typedef typename Wide<T>::Type W;
    W best = W(x[0]);
#pragma clang loop vectorize(enable) interleave_count(4)
    for (int64 i = 0; i < n; ++i) best = LARGEST ? larger(best, W(x[i])) : smaller(best, W(x[i]));
    return best;
}

// The first place of `best`, or of a NaN where that is what it is.
template <class T, class W> EXTREME_INLINE int64 place_of(const T* x, int64 n, W best) {
    constexpr int64 STEP = 64;
    int64 i = 0;
    for (; i + STEP <= n; i += STEP) {
        int32 found = 0;
        for (int64 k = 0; k < STEP; ++k) found |= int32(W(x[i + k]) == best) | int32(W(x[i + k]) != W(x[i + k]));
        if (found) break;
    }
    for (; i < n; ++i)
        if (W(x[i]) == best || W(x[i]) != W(x[i])) return i;
    return 0;
}

constexpr int64 COLUMNS = 128;
constexpr int64 PARTS = 64;
constexpr int64 LONG = 1 << 16;

template <class T, bool LARGEST, class Give>
EXTREME_INLINE void run(const T* __restrict x, int64 outer, int64 n, int64 inner, const Give& give) {
    typedef typename Wide<T>::Type W;
    if (inner == 1 && outer < 4 && n >= LONG) {  // few long rows: each in parts
        for (int64 row = 0; row < outer; ++row) {
            const T* own = x + row * n;
            int64 size = (n + PARTS - 1) / PARTS, parts = (n + size - 1) / size;
            W bests[PARTS];
            W* into = bests;
            parallel_for(parts, 32768 / size + 1, [=](int64 begin, int64 end) {
                for (int64 part = begin; part < end; ++part)
                    into[part] = best_of<LARGEST>(own + part * size, n - part * size < size ? n - part * size : size);
            });
            int64 part = place_of(bests, parts, best_of<LARGEST>(bests, parts));
            int64 start = part * size;
            give(row, bests[part], start + place_of(own + start, n - start < size ? n - start : size, bests[part]));
        }
        return;
    }
    int64 blocks = inner == 1 ? 1 : (inner + COLUMNS - 1) / COLUMNS;
    int64 work = n * (inner < COLUMNS ? inner : COLUMNS);
    parallel_for(outer * blocks, 16384 / work + 1, [=](int64 begin, int64 end) {
        for (int64 task = begin; task < end; ++task) {
            if (inner == 1) {
                W best = best_of<LARGEST>(x + task * n, n);
                give(task, best, place_of(x + task * n, n, best));
                continue;
            }
            int64 column = task % blocks * COLUMNS, width = inner - column < COLUMNS ? inner - column : COLUMNS;
            const T* own = x + task / blocks * n * inner + column;
            alignas(64) W bests[COLUMNS];
            alignas(64) int32 places[COLUMNS];
            for (int64 i = 0; i < width; ++i) {
                bests[i] = W(own[i]);
                places[i] = 0;
            }
            for (int64 step = 1; step < n; ++step) {
                const T* from = own + step * inner;
#pragma clang loop vectorize(assume_safety)
                for (int64 i = 0; i < width; ++i) {
                    W value = W(from[i]);
                    bool better = beats<LARGEST>(value, bests[i]);
                    bests[i] = better ? value : bests[i];
                    places[i] = better ? int32(step) : places[i];
                }
            }
            for (int64 i = 0; i < width; ++i) give(task / blocks * inner + column + i, bests[i], int64(places[i]));
        }
    });
}

template <class T, bool LARGEST>
EXTREME_INLINE void both(T* __restrict values, int64* __restrict index, const T* __restrict x, int64 outer, int64 n,
                         int64 inner) {
    typedef typename Wide<T>::Type W;
    run<T, LARGEST>(x, outer, n, inner, [=](int64 at, W best, int64 place) {
        values[at] = T(best);
        index[at] = place;
    });
}

template <class T, bool LARGEST>
EXTREME_INLINE void places(int64* __restrict index, const T* __restrict x, int64 outer, int64 n, int64 inner) {
    typedef typename Wide<T>::Type W;
    run<T, LARGEST>(x, outer, n, inner, [=](int64 at, W, int64 place) { index[at] = place; });
}

template <class T, bool LARGEST>
EXTREME_INLINE void values(T* __restrict values, const T* __restrict x, int64 outer, int64 n, int64 inner) {
    typedef typename Wide<T>::Type W;
    run<T, LARGEST>(x, outer, n, inner, [=](int64 at, W best, int64) { values[at] = T(best); });
}

#undef EXTREME_INLINE

}  // namespace extreme
