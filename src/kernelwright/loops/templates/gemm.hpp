// Matrix products: out[i] = a[i] b[i] (+ bias) for each of a batch, float or double, any sizes and any strides of a, b.
//
//   a     [batch][rows][inner]
//   b     [batch][inner][columns]
//   out   [batch][rows][columns]    row-major; of it are kept the numbers with low <= column - row <= high, the others
//                                   are 0 and are not computed
//   bias  [columns]                 or null
//
// `tile` is the micro-kernel: up to ROWS x COLUMNS sums stay in registers while a chunk of `inner` passes by; a number
// of a is broadcast to a vector of b. Rows are shared out evenly among tiles, so that none is left with a few. Of a
// chunk b lies packed in panels [columns / COLUMNS][chunk][COLUMNS], and a in rows PITCH apart, which a tile finds from
// one address. Sums of a chunk are added to `out` at its end: rounding errors grow with inner / CHUNK + CHUNK and not
// with inner.
//   `wide`      packs both: a block of b stays in the second-level cache, a tile's rows of a in the first.
//   `streamed`  reads a weight that was packed once, see `pack_weight`: all rows stay in the second-level cache, and
//               while they are multiplied by a chunk of a panel the next chunk is fetched. What follows a map element
//               by element is done to each tile's numbers as soon as they are written.
// Source of the method: Goto and van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication".
namespace gemm {

#define GEMM_INLINE static inline __attribute__((always_inline))
#define GEMM_APART static __attribute__((noinline))

// ROWS * VECTORS sums, VECTORS vectors of b and a broadcast number fill the registers: 32 of them, or 16.
#if defined(__AVX512F__)
constexpr int BYTES = 64, ROWS = 12, VECTORS = 2;
#elif defined(__AVX2__)
constexpr int BYTES = 32, ROWS = 6, VECTORS = 2;
#elif defined(__aarch64__)
constexpr int BYTES = 16, ROWS = 12, VECTORS = 2;
#else
constexpr int BYTES = 16, ROWS = 6, VECTORS = 2;
#endif

template <class T> struct Of;
template <> struct Of<float> { typedef float Vector __attribute__((ext_vector_type(BYTES / sizeof(float)))); };
template <> struct Of<double> { typedef double Vector __attribute__((ext_vector_type(BYTES / sizeof(double)))); };
template <class T> constexpr int LANES = BYTES / sizeof(T);
template <class T> constexpr int COLUMNS = LANES<T> * VECTORS;
// The longest chunk: one of 12 rows of a, in the first-level cache, is 18 kB.
template <class T> constexpr int64 CHUNK = 1536 / sizeof(T);
// Rows of a start in different sets of a cache.
constexpr int64 LINE_BYTES = 64;
template <class T> constexpr int64 LINE = LINE_BYTES / sizeof(T);
template <class T> constexpr int64 PITCH = CHUNK<T> + LINE<T>;
// What `wide` packs of b and `streamed` of a, on the stack of each thread: a second-level cache has room for it, 1 MB
// at least where vectors are 64 bytes.
template <class T> constexpr int64 BLOCK = (BYTES == 64 ? 3 << 18 : 1 << 19) / sizeof(T);
// Rows that `streamed` packs at once.
constexpr int64 HEIGHT = 96;
// What is worth a thread, in multiplications.
constexpr int64 GRAIN = 1 << 18;
// With so few rows or columns the other operand is read once and hardly anything is computed: packing it is no use.
constexpr int64 THIN = 4;

template <class T> struct Matrix {
    const T* data;
    int64 row, column;

    Matrix turned() const { return {data, column, row}; }
    Matrix from(int64 r, int64 c) const { return {data + r * row + c * column, row, column}; }
};

// Where a product goes, and which part of it.
template <class T> struct Result {
    T* data;
    int64 row, column;
    // The numbers with low <= c - r <= high are kept.
    int64 low, high;

    Result turned() const { return {data, column, row, -high, -low}; }
    Result from(int64 r, int64 c) const { return {data + r * row + c * column, row, column, low + r - c, high + r - c}; }
    // Whether any of so many numbers from the first one on is kept.
    bool keeps(int64 rows, int64 columns) const { return columns - 1 >= low && 1 - rows <= high; }
    // Clears what is not kept.
    void clear(int64 rows, int64 columns) const {
        for (int64 r = 0; r < rows; ++r) {
            const int64 first = low + r < columns ? low + r : columns, last = high + r + 1 > 0 ? high + r + 1 : 0;
            for (int64 c = 0; c < first; ++c) data[r * row + c * column] = T(0);
            for (int64 c = last; c < columns; ++c) data[r * row + c * column] = T(0);
        }
    }
};

GEMM_INLINE int64 least(int64 x, int64 y) { return x < y ? x : y; }
GEMM_INLINE int64 parts_of(int64 size, int64 part) { return (size + part - 1) / part; }

template <class V, class T> GEMM_INLINE V load(const T* from) {
    V vector;
    __builtin_memcpy(&vector, from, sizeof(vector));
    return vector;
}
template <class V, class T> GEMM_INLINE void store(T* to, V vector) { __builtin_memcpy(to, &vector, sizeof(vector)); }

// ---- the micro-kernel ------------------------------------------------------------------------------------------

// What sums are added to: 0 where `data` is null, else a row, the same for all rows or for each its own.
template <class T> struct Start {
    const T* data;
    int64 row;
};

// What is fetched while a tile is computed: so many lines from `from` on with every four components, for later.
template <class T> struct Ahead {
    const T* from;
    int64 lines;
};

// out[r][c] = start[r][c] + sum over i of a[r][i] * b[i][c], for COUNT rows and WIDE vectors of columns, both packed.
template <int COUNT, int WIDE, class T>
GEMM_APART void tile(T* out, int64 out_row, Start<T> start, const T* a, const T* b, int64 depth, Ahead<T> ahead) {
    typedef typename Of<T>::Vector Vector;
    // Where registers are left components take turns: shorter sums, and none waits for the one before.
    constexpr int TURNS = COUNT * WIDE > ROWS * VECTORS / 2 ? 1 : COUNT * WIDE > ROWS * VECTORS / 4 ? 2 : 4;
    Vector sums[COUNT][WIDE][TURNS] = {};
    for (int r = 0; r < COUNT; ++r)
        for (int v = 0; v < WIDE; ++v) __builtin_prefetch(out + r * out_row + v * LANES<T>, 1);
    const auto add = [&](int64 i, int turn) __attribute__((always_inline)) {
        Vector column[WIDE];
#pragma clang loop unroll(full)
        for (int v = 0; v < WIDE; ++v) column[v] = load<Vector>(b + i * COLUMNS<T> + v * LANES<T>);
#pragma clang loop unroll(full)
        for (int r = 0; r < COUNT; ++r)
#pragma clang loop unroll(full)
            for (int v = 0; v < WIDE; ++v) sums[r][v][turn % TURNS] += Vector(a[r * PITCH<T> + i]) * column[v];
    };
    int64 i = 0;
    for (; i + 4 <= depth; i += 4) {
        for (int64 line = 0; line < ahead.lines; ++line) __builtin_prefetch(ahead.from + line * LINE<T>, 0, 2);
        ahead.from += ahead.lines * LINE<T>;
        add(i, 0), add(i + 1, 1), add(i + 2, 2), add(i + 3, 3);
    }
    for (; i < depth; ++i) add(i, 0);
#pragma clang loop unroll(full)
    for (int r = 0; r < COUNT; ++r)
#pragma clang loop unroll(full)
        for (int v = 0; v < WIDE; ++v) {
            const T* from = start.data + r * start.row + v * LANES<T>;
            Vector sum = sums[r][v][0];
#pragma clang loop unroll(full)
            for (int turn = 1; turn < TURNS; ++turn) sum += sums[r][v][turn];
            store(out + r * out_row + v * LANES<T>, start.data ? load<Vector>(from) + sum : sum);
        }
}

// The same for any number of rows up to COUNT.
template <int COUNT, int WIDE, class... Arguments> GEMM_INLINE void tiled(int64 rows, Arguments... arguments) {
    if (rows == COUNT)
        tile<COUNT, WIDE>(arguments...);
    else if constexpr (COUNT > 1)
        tiled<COUNT - 1, WIDE>(rows, arguments...);
}

// Any number of columns up to COLUMNS: a panel that is cut short goes by way of `edge`.
template <class T>
GEMM_APART void panel(int64 rows, int64 width, T* out, int64 out_row, Start<T> start, const T* a, const T* b,
                      int64 depth, Ahead<T> ahead) {
    if (width == COLUMNS<T>) {
        tiled<ROWS, VECTORS>(rows, out, out_row, start, a, b, depth, ahead);
        return;
    }
    alignas(64) T edge[ROWS * COLUMNS<T>];
    if (width <= LANES<T>)
        tiled<ROWS, 1>(rows, edge, COLUMNS<T>, Start<T>{}, a, b, depth, ahead);
    else
        tiled<ROWS, VECTORS>(rows, edge, COLUMNS<T>, Start<T>{}, a, b, depth, ahead);
    for (int64 r = 0; r < rows; ++r)
        for (int64 c = 0; c < width; ++c)
            out[r * out_row + c] = (start.data ? start.data[r * start.row + c] : T(0)) + edge[r * COLUMNS<T> + c];
}

// ---- packing ---------------------------------------------------------------------------------------------------

// to[i][c] = from[c * across + i * along] for c < width, of rows WIDTH apart.
template <int WIDTH, class T>
GEMM_APART void pack(T* to, const T* from, int64 across, int64 along, int64 width, int64 depth) {
    if (across == 1 && width == WIDTH) {
        for (int64 i = 0; i < depth; ++i) __builtin_memcpy(to + i * WIDTH, from + i * along, WIDTH * sizeof(T));
        return;
    }
    typedef T Four __attribute__((ext_vector_type(4)));
    int64 c = 0;
    if (along == 1)
        for (; c + 4 <= width; c += 4) {  // squares of 4 x 4 are turned in registers
            const T* own = from + c * across;
            int64 i = 0;
            for (; i + 4 <= depth; i += 4) {
                Four x = load<Four>(own + i), y = load<Four>(own + across + i);
                Four z = load<Four>(own + 2 * across + i), w = load<Four>(own + 3 * across + i);
                Four xz = __builtin_shufflevector(x, z, 0, 4, 1, 5), yw = __builtin_shufflevector(y, w, 0, 4, 1, 5);
                Four zx = __builtin_shufflevector(x, z, 2, 6, 3, 7), wy = __builtin_shufflevector(y, w, 2, 6, 3, 7);
                T* at = to + i * WIDTH + c;
                store(at, __builtin_shufflevector(xz, yw, 0, 4, 1, 5));
                store(at + WIDTH, __builtin_shufflevector(xz, yw, 2, 6, 3, 7));
                store(at + 2 * WIDTH, __builtin_shufflevector(zx, wy, 0, 4, 1, 5));
                store(at + 3 * WIDTH, __builtin_shufflevector(zx, wy, 2, 6, 3, 7));
            }
            for (; i < depth; ++i)
                for (int64 k = 0; k < 4; ++k) to[i * WIDTH + c + k] = own[k * across + i];
        }
    for (int64 i = 0; i < depth; ++i)
        for (int64 k = c; k < width; ++k) to[i * WIDTH + k] = from[k * across + i * along];
}

// A panel of b, filled up with 0.
template <class T>
GEMM_INLINE void pack_panel(T* to, const T* from, int64 across, int64 along, int64 width, int64 depth) {
    if (width < COLUMNS<T>) __builtin_memset(to, 0, depth * COLUMNS<T> * sizeof(T));
    pack<COLUMNS<T>>(to, from, across, along, width, depth);
}

// A block of b in panels, COLUMNS of its columns each.
template <class T> GEMM_APART void pack_block(T* to, Matrix<T> b, int64 columns, int64 depth) {
    const int64 whole = b.column == 1 ? columns / COLUMNS<T> * COLUMNS<T> : 0;
    for (int64 i = 0; i < (whole ? depth : 0); ++i)  // along the rows as they lie in memory
        for (int64 c = 0; c < whole; c += COLUMNS<T>)
            __builtin_memcpy(to + c * depth + i * COLUMNS<T>, b.data + i * b.row + c, COLUMNS<T> * sizeof(T));
    for (int64 c = whole; c < columns; c += COLUMNS<T>)
        pack_panel(to + c * depth, b.from(0, c).data, b.column, b.row, least(COLUMNS<T>, columns - c), depth);
}

// A chunk of rows of a.
template <class T> GEMM_INLINE void pack_rows(T* to, Matrix<T> a, int64 rows, int64 depth) {
    if (a.column == 1)
        for (int64 r = 0; r < rows; ++r) __builtin_memcpy(to + r * PITCH<T>, a.data + r * a.row, depth * sizeof(T));
    else
        pack<PITCH<T>>(to, a.data, a.column, a.row, depth, rows);
}

// Fetches one of so many parts of rows that are packed next.
template <class T> GEMM_INLINE void fetch_rows(Matrix<T> a, int64 rows, int64 depth, int64 part, int64 parts) {
    if (a.column != 1) return;
    for (int64 r = part; r < rows; r += parts)
        for (int64 i = 0; i < depth; i += LINE<T>) __builtin_prefetch(a.data + r * a.row + i, 0, 2);
}

// What becomes of sums: nothing.
struct Sum {};

// What becomes of sums of a whole result: then(sum, row, column, index in the result).
template <class T, class Then> struct Finish {
    T* data;
    int64 columns;
    Then then;

    // Finishes numbers that were just written and are in the first-level cache.
    void operator()(T* own, int64 rows, int64 width) const {
        if constexpr (!__is_same(Then, Sum)) {
            const int64 row = (own - data) / columns, column = (own - data) % columns;
            for (int64 r = 0; r < rows; ++r) {
                const int64 index = (row + r) * columns + column;
#pragma clang loop vectorize(assume_safety)
                for (int64 c = 0; c < width; ++c) data[index + c] = then(data[index + c], row + r, column + c, index + c);
            }
        }
    }
};

// A weight packed for good: [columns / COLUMNS][1 + inner][COLUMNS], first the panel's biases.
template <class T, class Then> struct Panels {
    const T* data;
    int64 inner;
    Finish<T, Then> finish;

    Panels from(int64, int64 c) const { return {data + c * (1 + inner), inner, finish}; }
    const T* at(int64 i) const { return data + (1 + i) * COLUMNS<T>; }
};

template <class T>
static void pack_weight(T* packed, const T* weight, const T* bias, int64 columns, int64 inner, int64 column_step,
                        int64 inner_step) {
    parallel_for(parts_of(columns, COLUMNS<T>), GRAIN / (inner * COLUMNS<T> + 1) + 1, [=](int64 begin, int64 end) {
        for (int64 c = begin * COLUMNS<T>; c < least(columns, end * COLUMNS<T>); c += COLUMNS<T>) {
            T* to = packed + c * (1 + inner);
            const int64 width = least(COLUMNS<T>, columns - c);
            for (int64 k = 0; k < COLUMNS<T>; ++k) to[k] = bias && k < width ? bias[c + k] : T(0);
            pack_panel(to + COLUMNS<T>, weight + c * column_step, column_step, inner_step, width, inner);
        }
    });
}

// ---- many rows and columns -------------------------------------------------------------------------------------

template <class T>
GEMM_APART void wide(Result<T> out, Matrix<T> a, Matrix<T> b, const T* bias, int64 rows, int64 columns, int64 inner) {
    alignas(64) T block[BLOCK<T>];
    alignas(64) T high[ROWS * PITCH<T>];
    const int64 chunk = inner ? parts_of(inner, parts_of(inner, CHUNK<T>)) : 1;
    const int64 most = BLOCK<T> / chunk / COLUMNS<T> * COLUMNS<T>;
    const int64 side = parts_of(parts_of(columns, parts_of(columns, most)), COLUMNS<T>) * COLUMNS<T>;
    const int64 tall = parts_of(rows, parts_of(rows, ROWS));
    for (int64 left = 0; left < columns; left += side)
        for (int64 i = 0; i < inner || i == 0; i += chunk) {
            const int64 deep = least(chunk, inner - i), right = least(columns, left + side);
            pack_block(block, b.from(i, left), right - left, deep);
            for (int64 r = 0; r < rows; r += tall) {
                const int64 height = least(tall, rows - r);
                if (!out.from(r, left).keeps(height, right - left)) continue;
                pack_rows(high, a.from(r, i), height, deep);
                for (int64 c = left; c < right; c += COLUMNS<T>) {
                    const int64 width = least(COLUMNS<T>, right - c);
                    const Result<T> own = out.from(r, c);
                    if (!own.keeps(height, width)) continue;
                    fetch_rows(a.from(r + tall, i), least(tall, rows - r - tall), deep, (c - left) / COLUMNS<T>,
                               parts_of(right - left, COLUMNS<T>));
                    panel(height, width, own.data, out.row,
                          i ? Start<T>{own.data, out.row} : Start<T>{bias ? bias + c : nullptr, 0}, high,
                          block + (c - left) * deep, deep, Ahead<T>{});
                }
            }
        }
    out.clear(rows, columns);
}

template <class T, class Then>
GEMM_APART void streamed(Result<T> out, Matrix<T> a, Panels<T, Then> b, int64 rows, int64 columns, int64 inner) {
    alignas(64) T block[BLOCK<T>];
    // Sums of a panel before its last chunk: rows of `out` may lie so that they drive one another out of a cache.
    alignas(64) T sums[HEIGHT * COLUMNS<T>];
    // Sums of a panel are at hand, so chunks may be shorter; shorter still with few rows, where the weight's memory is
    // what costs and libraries round least.
    const int64 longest = rows > 2 * ROWS ? CHUNK<T> * 2 / 3 : CHUNK<T> / 2;
    const int64 chunk = inner ? parts_of(inner, parts_of(inner, longest)) : 1;
    const int64 high = parts_of(rows, parts_of(rows, HEIGHT)), size = high * PITCH<T>, depth = BLOCK<T> / size * chunk;
    for (int64 top = 0; top < rows; top += high)
        for (int64 start = 0; start < inner || start == 0; start += depth) {
            const int64 height = least(high, rows - top), stop = least(inner, start + depth);
            const int64 count = parts_of(height, ROWS), tall = parts_of(height, count);
            for (int64 i = start; i < stop; i += chunk)
                pack_rows(block + (i - start) / chunk * size, a.from(top, i), height, least(chunk, stop - i));
            // While one chunk of a panel is multiplied by all rows, the whole next one is fetched. With few rows the
            // processor's own fetching is up to 3 % faster from a cache, but a fifth slower from memory.
            const int64 lines = parts_of(4 * COLUMNS<T> / LINE<T>, count);
            for (int64 c = 0; c < columns; c += COLUMNS<T>)
                for (int64 i = start; i < stop || i == 0; i += chunk) {
                    const int64 deep = least(chunk, stop - i), width = least(COLUMNS<T>, columns - c);
                    const T *own_a = block + (i - start) / chunk * size, *own_b = b.from(0, c).at(i);
                    Ahead<T> ahead{own_b + deep * COLUMNS<T>, lines};
                    for (int64 r = 0; r < height; r += tall, ahead.from += deep / 4 * lines * LINE<T>) {
                        const Result<T> own = out.from(top + r, c);
                        const Start<T> begun{sums + r * COLUMNS<T>, COLUMNS<T>};
                        const Start<T> begin = i ? Start<T>{own.data, out.row} : Start<T>{b.from(0, c).data, 0};
                        const bool last = i + chunk >= stop;
                        panel(least(tall, height - r), width, last ? own.data : sums + r * COLUMNS<T>,
                              last ? out.row : COLUMNS<T>, i > start ? begun : begin, own_a + r * PITCH<T>, own_b, deep,
                              ahead);
                        if (last && stop == inner) b.finish(own.data, least(tall, height - r), width);
                    }
                }
        }
}

// ---- few rows --------------------------------------------------------------------------------------------------

// The products of COUNT rows of a and ACROSS columns of b, both with their numbers side by side.
template <int COUNT, int ACROSS, class T>
GEMM_APART void dots(Result<T> out, const T* a, int64 a_row, const T* b, int64 b_column, int64 depth, bool added) {
    typedef typename Of<T>::Vector Vector;
    Vector sums[COUNT][ACROSS] = {};
    int64 i = 0;
    for (; i + LANES<T> <= depth; i += LANES<T>) {
        Vector column[ACROSS];
#pragma clang loop unroll(full)
        for (int c = 0; c < ACROSS; ++c) column[c] = load<Vector>(b + c * b_column + i);
#pragma clang loop unroll(full)
        for (int r = 0; r < COUNT; ++r) {
            const Vector row = load<Vector>(a + r * a_row + i);
#pragma clang loop unroll(full)
            for (int c = 0; c < ACROSS; ++c) sums[r][c] += row * column[c];
        }
    }
    for (int r = 0; r < COUNT; ++r)
        for (int c = 0; c < ACROSS; ++c) {
            T sum = T(0);
            for (int64 k = i; k < depth; ++k) sum += a[r * a_row + k] * b[c * b_column + k];
            for (int l = 0; l < LANES<T>; ++l) sum += sums[r][c][l];
            T* to = out.from(r, c).data;
            *to = added ? *to + sum : sum;
        }
}

template <int COUNT, class T>
GEMM_INLINE void dotted(Result<T> out, const T* a, int64 a_row, Matrix<T> b, int64 columns, int64 depth, bool added) {
    int64 c = 0;
    for (; c + 4 <= columns; c += 4)
        dots<COUNT, 4>(out.from(0, c), a, a_row, b.from(0, c).data, b.column, depth, added);
    for (; c < columns; ++c) dots<COUNT, 1>(out.from(0, c), a, a_row, b.from(0, c).data, b.column, depth, added);
}

// Columns of b with their numbers side by side. A strip of the rows stays in the second-level cache.
template <class T>
GEMM_APART void thin_dots(Result<T> out, Matrix<T> a, Matrix<T> b, int64 rows, int64 columns, int64 inner,
                          bool added) {
    constexpr int64 depth = 32768 / sizeof(T);
    alignas(64) T strip[THIN * depth];
    for (int64 i = 0; i < inner; i += depth) {
        const int64 deep = least(depth, inner - i);
        for (int64 r = 0; r < rows; ++r)
            for (int64 k = 0; k < deep; ++k) strip[r * depth + k] = *a.from(r, i + k).data;
        const Matrix<T> own = b.from(i, 0);
        int64 r = 0;
        for (; r + 4 <= rows; r += 4) dotted<4>(out.from(r, 0), strip + r * depth, depth, own, columns, deep, added || i);
        if (rows - r >= 2) dotted<2>(out.from(r, 0), strip + r * depth, depth, own, columns, deep, added || i), r += 2;
        if (r < rows) dotted<1>(out.from(r, 0), strip + r * depth, depth, own, columns, deep, added || i);
    }
}

// Rows of b with their numbers side by side: four at a time are added to sums in the first-level cache.
template <class T>
GEMM_APART void thin_sums(Result<T> out, Matrix<T> a, Matrix<T> b, int64 rows, int64 columns, int64 inner,
                          bool added) {
    constexpr int64 width = 4096 / sizeof(T), few = 4;
    typedef typename Of<T>::Vector Vector;
    alignas(64) T sums[THIN][width];
    for (int64 left = 0; left < columns; left += width)
        for (int64 start = 0; start < inner; start += CHUNK<T>) {
            const int64 wide = least(width, columns - left), stop = least(inner, start + CHUNK<T>);
            __builtin_memset(sums, 0, sizeof(sums));
            for (int64 i = start; i < stop; i += few) {
                const int64 deep = least(few, stop - i);
                const T* from[few];
                Vector factor[THIN][few];
                for (int64 k = 0; k < deep; ++k) from[k] = b.from(i + k, left).data;
                for (int64 r = 0; r < rows; ++r)
                    for (int64 k = 0; k < deep; ++k) factor[r][k] = Vector(*a.from(r, i + k).data);
                int64 c = 0;
                if (deep == few)
                    for (; c + LANES<T> <= wide; c += LANES<T>)
                        for (int64 r = 0; r < rows; ++r) {
                            Vector sum = load<Vector>(sums[r] + c);
#pragma clang loop unroll(full)
                            for (int64 k = 0; k < few; ++k) sum += factor[r][k] * load<Vector>(from[k] + c);
                            store(sums[r] + c, sum);
                        }
                for (; c < wide; ++c)
                    for (int64 r = 0; r < rows; ++r)
                        for (int64 k = 0; k < deep; ++k) sums[r][c] += factor[r][k][0] * from[k][c];
            }
            for (int64 r = 0; r < rows; ++r)
                for (int64 c = 0; c < wide; ++c) {
                    T* to = out.from(r, left + c).data;
                    *to = added || start ? *to + sums[r][c] : sums[r][c];
                }
        }
}

// ---- all -------------------------------------------------------------------------------------------------------

template <class T>
GEMM_INLINE void part(Result<T> out, Matrix<T> a, Matrix<T> b, const T* bias, int64 rows, int64 columns, int64 inner) {
    const bool turned = columns <= THIN && columns < rows && (a.column == 1 || a.row == 1);
    if (!inner || (!turned && (rows > THIN || (b.row != 1 && b.column != 1)))) {
        wide(out, a, b, bias, rows, columns, inner);
        return;
    }
    if (bias)
        for (int64 r = 0; r < rows; ++r)
            for (int64 c = 0; c < columns; ++c) *out.from(r, c).data = bias[c];
    const Result<T> to = turned ? out.turned() : out;
    const Matrix<T> few = turned ? b.turned() : a, other = turned ? a.turned() : b;
    const int64 count = turned ? columns : rows, across = turned ? rows : columns;
    if (other.column == 1)
        thin_sums(to, few, other, count, across, inner, bias != nullptr);
    else
        thin_dots(to, few, other, count, across, inner, bias != nullptr);
    out.clear(rows, columns);
}

template <class T, class Then>
GEMM_INLINE void part(Result<T> out, Matrix<T> a, Panels<T, Then> b, const T*, int64 rows, int64 columns, int64 inner) {
    streamed(out, a, b, rows, columns, inner);
}

// Products are cut into as many parts as give every thread the same number of them, and those so that least is packed.
template <class T, class B>
GEMM_INLINE void shared(T* out, Matrix<T> a, int64 a_batch, B b, int64 b_batch, const T* bias, int64 batch, int64 rows,
                        int64 columns, int64 inner, int64 low, int64 high) {
    // With fewer rows or columns than 4 it takes as long: the other operand's memory is what costs.
    const int64 thin = THIN * (rows > columns ? rows : columns);
    const int64 work = (rows * columns > thin ? rows * columns : thin) * inner;
    const int64 threads = least(kernelwright::thread_count(), batch * work / GRAIN + 1);
    int64 parts = 1;
    while (batch * parts % threads && batch * parts < 8 * threads) ++parts;
    const bool band = low > -rows || high < columns - 1;
    int64 down = 1;
    for (int64 d = 1; d <= parts; ++d)
        if (parts % d == 0 && rows * parts / d + columns * d < rows * parts / down + columns * down) down = d;
    int64 across = parts / down;
    // Of a packed weight each thread reads its own part, where it has whole panels enough for all.
    if (!__is_same(B, Matrix<T>) && parts > 1) {
        const int64 panels = parts_of(columns, COLUMNS<T>);
        const auto most = [&](int64 d) { return parts_of(rows, d) * parts_of(panels, parts / d); };
        down = 1;
        for (int64 d = 2; d <= parts; ++d)
            if (parts % d == 0 && most(d) < most(down)) down = d;
        across = parts / down;
    }
    // Rows of a triangle differ in length: each thread gets a part from either end.
    if (band && threads > 1) down = 2 * parts, across = 1;
    const int64 height = parts_of(rows, down);
    const int64 width = parts_of(parts_of(columns, across), COLUMNS<T>) * COLUMNS<T>;
    const int64 tasks = down * across;
    parallel_for(batch * tasks, batch * tasks / threads, [=](int64 begin, int64 end) {
        for (int64 task = begin; task < end; ++task) {
            const int64 i = task / tasks, place = task % tasks / across, c = task % across * width;
            const int64 r = (band && place % 2 ? down - 1 - place / 2 : band ? place / 2 : place) * height;
            if (r >= rows || c >= columns) continue;
            const Result<T> whole{out + i * rows * columns, columns, 1, low, high};
            B own = b;
            own.data += i * b_batch;
            part(whole.from(r, c), Matrix<T>{a.data + i * a_batch, a.row, a.column}.from(r, 0), own.from(0, c),
                 bias ? bias + c : nullptr, least(height, rows - r), least(width, columns - c), inner);
        }
    });
}

template <class T>
static void run(T* out, const T* a, const T* b, const T* bias, int64 batch, int64 rows, int64 columns, int64 inner,
                int64 a_offset, int64 a_batch, int64 a_row, int64 a_column, int64 b_offset, int64 b_batch,
                int64 b_row, int64 b_column, int64 low, int64 high) {
    shared(out, Matrix<T>{a + a_offset, a_row, a_column}, a_batch, Matrix<T>{b + b_offset, b_row, b_column}, b_batch,
           bias, batch, rows, columns, inner, low, high);
}

template <class T, class... Sizes>
GEMM_INLINE void run(T* out, const T* a, const T* b, int64 batch, Sizes... sizes) {
    run(out, a, b, static_cast<const T*>(nullptr), batch, sizes...);
}

// Rows mapped by a packed weight, and what becomes of the sums.
template <class T, class Then>
static void map(T* out, const T* x, const T* packed, int64 rows, int64 columns, int64 inner, const Then& then) {
    shared(out, Matrix<T>{x, inner, 1}, 0, Panels<T, Then>{packed, inner, {out, columns, then}}, 0,
           static_cast<const T*>(nullptr), 1, rows, columns, inner, -rows, columns);
}

#undef GEMM_INLINE
#undef GEMM_APART

}  // namespace gemm
