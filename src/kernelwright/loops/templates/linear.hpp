// A linear map: out = x w^T + b for rows of x, float32, any sizes.
//
// The weight is packed once, in panels of COLUMNS results that one vector register tile holds:
//
//   packed   [panels][1 + INNER][COLUMNS]   first the panel's biases, then for each component its weights
//   x        [rows][INNER]                  read in place, one number at a time, broadcast
//   out      [rows][columns]
//
// A register tile is ROWS rows of a panel. A depth of components of a panel stays in the first-level cache while the
// rows of a task pass by; the rows of a task stay in the second. Results wait in `out` from depth to depth.
// Source of the method: Goto and van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication".
namespace linear_maps {

#if defined(__AVX512F__)
constexpr int LANES = 16, ROWS = 12;
#elif defined(__AVX2__)
constexpr int LANES = 8, ROWS = 6;
#elif defined(__aarch64__)
constexpr int LANES = 4, ROWS = 12;
#else
constexpr int LANES = 4, ROWS = 6;
#endif
typedef float Vector __attribute__((ext_vector_type(LANES)));

// Two vectors of results a row: ROWS * 2 sums, the weights and a broadcast number fill the registers.
constexpr int VECTORS = 2;
constexpr int COLUMNS = LANES * VECTORS;
// 256 components of 16 results are 16 kB.
constexpr int64 DEPTH = 256;
// Small enough to share few rows out among threads, large enough that weights are read from the cache's next level
// once for many sums.
constexpr int64 TASK_ROWS = 48;
constexpr int64 TASK_COLUMNS = 64;

#define LINEAR_INLINE static inline __attribute__((always_inline))

LINEAR_INLINE Vector load(const float* from) {
    Vector vector;
    __builtin_memcpy(&vector, from, sizeof(vector));
    return vector;
}
LINEAR_INLINE void store(float* to, Vector vector) { __builtin_memcpy(to, &vector, sizeof(vector)); }

// out[r][c] = start[r][c] + sum over i of x[r][i] * weights[i][c], for COUNT rows.
template <int COUNT>
LINEAR_INLINE void tile(float* out, int64 out_row, const float* start, int64 start_row, const float* x, int64 x_row,
                        const float* weights, int64 depth) {
    Vector sums[COUNT][VECTORS];
    for (int r = 0; r < COUNT; ++r) __builtin_prefetch(out + r * out_row, 1);
#pragma clang loop unroll(full)
    for (int r = 0; r < COUNT; ++r)
#pragma clang loop unroll(full)
        for (int v = 0; v < VECTORS; ++v) sums[r][v] = load(start + r * start_row + v * LANES);
#pragma clang loop unroll_count(8)
    for (int64 i = 0; i < depth; ++i) {
        Vector weight[VECTORS];
#pragma clang loop unroll(full)
        for (int v = 0; v < VECTORS; ++v) weight[v] = load(weights + i * COLUMNS + v * LANES);
#pragma clang loop unroll(full)
        for (int r = 0; r < COUNT; ++r)
#pragma clang loop unroll(full)
            for (int v = 0; v < VECTORS; ++v)
                sums[r][v] = __builtin_elementwise_fma(Vector(x[r * x_row + i]), weight[v], sums[r][v]);
    }
#pragma clang loop unroll(full)
    for (int r = 0; r < COUNT; ++r)
#pragma clang loop unroll(full)
        for (int v = 0; v < VECTORS; ++v) store(out + r * out_row + v * LANES, sums[r][v]);
}

// The same for any number of rows: tiles of COUNT, then what is left in tiles half as high, down to one row.
template <int COUNT>
LINEAR_INLINE void tiles(int64 rows, float* out, int64 out_row, const float* start, int64 start_row, const float* x,
                         int64 x_row, const float* weights, int64 depth) {
    int64 r = 0;
    for (; r + COUNT <= rows; r += COUNT)
        tile<COUNT>(out + r * out_row, out_row, start + r * start_row, start_row, x + r * x_row, x_row, weights, depth);
    if constexpr (COUNT > 1)
        tiles<COUNT / 2>(rows - r, out + r * out_row, out_row, start + r * start_row, start_row, x + r * x_row, x_row,
                         weights, depth);
}

// One panel and one depth for the rows of a task; a panel that is cut short by the last column goes by way of `edge`.
LINEAR_INLINE void panel(int64 rows, int64 width, float* out, int64 out_row, const float* biases, const float* x,
                         int64 x_row, const float* weights, int64 depth) {
    if (width == COLUMNS) {
        tiles<ROWS>(rows, out, out_row, biases ? biases : out, biases ? 0 : out_row, x, x_row, weights, depth);
        return;
    }
    alignas(64) float edge[TASK_ROWS * COLUMNS] = {};
    for (int64 r = 0; r < rows; ++r)
        for (int64 c = 0; c < width; ++c) edge[r * COLUMNS + c] = biases ? biases[c] : out[r * out_row + c];
    tiles<ROWS>(rows, edge, COLUMNS, edge, COLUMNS, x, x_row, weights, depth);
    for (int64 r = 0; r < rows; ++r)
        for (int64 c = 0; c < width; ++c) out[r * out_row + c] = edge[r * COLUMNS + c];
}

static void run(float* out, const float* x, const float* packed, int64 rows, int64 columns, int64 inner) {
    const int64 down = (rows + TASK_ROWS - 1) / TASK_ROWS, across = (columns + TASK_COLUMNS - 1) / TASK_COLUMNS;
    const int64 depths = (inner + DEPTH - 1) / DEPTH, depth = depths ? (inner + depths - 1) / depths : 0;
    parallel_for(down * across, 1, [=](int64 begin, int64 end) {
        for (int64 task = begin; task < end; ++task) {
            const int64 row = task / across * TASK_ROWS, column = task % across * TASK_COLUMNS;
            const int64 height = rows - row < TASK_ROWS ? rows - row : TASK_ROWS;
            const int64 last = columns - column < TASK_COLUMNS ? columns : column + TASK_COLUMNS;
            for (int64 i = 0; i < inner || i == 0; i += depth ? depth : 1)
                for (int64 c = column; c < last; c += COLUMNS) {
                    const float* from = packed + c * (1 + inner);
                    panel(height, last - c < COLUMNS ? last - c : COLUMNS, out + row * columns + c, columns,
                          i ? nullptr : from, x + row * inner + i, inner, from + (1 + i) * COLUMNS,
                          inner - i < depth ? inner - i : depth);
                }
        }
    });
}

// Column c of component i is weights[c * column_step + i * inner_step]; biases may be null.
static void pack(float* packed, const float* weights, const float* biases, int64 columns, int64 inner,
                 int64 column_step, int64 inner_step) {
    parallel_for((columns + COLUMNS - 1) / COLUMNS, 1, [=](int64 begin, int64 end) {
        for (int64 p = begin; p < end; ++p) {
            float* to = packed + p * COLUMNS * (1 + inner);
            const int64 first = p * COLUMNS, width = columns - first < COLUMNS ? columns - first : COLUMNS;
            for (int64 c = 0; c < COLUMNS; ++c) to[c] = biases && c < width ? biases[first + c] : 0.0f;
            for (int64 i = 0; i < inner; ++i)
                for (int64 c = 0; c < COLUMNS; ++c)
                    to[(1 + i) * COLUMNS + c] =
                        c < width ? weights[(first + c) * column_step + i * inner_step] : 0.0f;
        }
    });
}

}  // namespace linear_maps
