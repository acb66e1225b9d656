// Recurrent layers over a sequence, float32: what is left once the inputs' part of all steps is one product.
//
//   given   [steps][batch][GATES * hidden]   the inputs' part of the gates, with its bias
//   first   [batch][hidden]                  the hidden state before the first step; `state` the cell's own
//   bias    [GATES * hidden]                 or null
//   packed  [blocks of hidden][hidden][GATES][LANES]
//   out     [steps][batch][hidden]
//   last    [batch][hidden]                  the hidden state after the last step; `kept` the cell's own
//
// Gates stand in torch's order. A tile is up to ROWS rows of the batch and LANES hidden numbers with all of their
// gates: these stay in registers while the hidden state passes by, and become the next state at once. Weights pass by
// once a step, from the second-level cache where they fit. Large batches are shared out by rows, which need not wait for
// one another; small ones by hidden numbers, with a fork and join for each step that is worth it.
namespace recurrent {

#define RECURRENT_INLINE static inline __attribute__((always_inline))
#define RECURRENT_APART static __attribute__((noinline))

// `SUMS` sums, the weights of a component and a broadcast number fill the registers.
#if defined(__AVX512F__)
constexpr int LANES = 16, SUMS = 24;
#elif defined(__AVX2__)
constexpr int LANES = 8, SUMS = 10;
#elif defined(__aarch64__)
constexpr int LANES = 4, SUMS = 24;
#else
constexpr int LANES = 4, SUMS = 10;
#endif
typedef float Vector __attribute__((ext_vector_type(LANES)));
// Components whose products are summed up before they are added to those before: rounding errors are of short sums.
constexpr int64 CHUNK = 128;
// What is worth a thread, in multiplications.
constexpr int64 GRAIN = 1 << 17;
// Weights that each thread may read as a whole in every step, in floats: a second-level cache has room for them.
constexpr int64 SHARED = 1 << 18;

// A cell makes the next hidden number of its gates' parts from the input (x) and from the hidden state (h), of the
// hidden number before, and of the cell's own state, if it has one.
struct Lstm {
    static constexpr int GATES = 4;
    static constexpr bool KEEPS = true;
    static inline float next(const float (&x)[4], const float (&h)[4], float, float& state) {
        state = math::sigmoid(x[1] + h[1]) * state + math::sigmoid(x[0] + h[0]) * math::tanh(x[2] + h[2]);
        return math::sigmoid(x[3] + h[3]) * math::tanh(state);
    }
};
struct Gru {
    static constexpr int GATES = 3;
    static constexpr bool KEEPS = false;
    static inline float next(const float (&x)[3], const float (&h)[3], float before, float&) {
        const float fresh = math::tanh(x[2] + h[2] * math::sigmoid(x[0] + h[0]));
        return (before - fresh) * math::sigmoid(x[1] + h[1]) + fresh;
    }
};
struct Tanh {
    static constexpr int GATES = 1;
    static constexpr bool KEEPS = false;
    static inline float next(const float (&x)[1], const float (&h)[1], float, float&) { return math::tanh(x[0] + h[0]); }
};
struct Relu {
    static constexpr int GATES = 1;
    static constexpr bool KEEPS = false;
    static inline float next(const float (&x)[1], const float (&h)[1], float, float&) {
        const float sum = x[0] + h[0];
        return sum < 0.0f ? 0.0f : sum;
    }
};

template <class Cell> constexpr int ROWS = SUMS / Cell::GATES < 8 ? SUMS / Cell::GATES : 8;

RECURRENT_INLINE int64 least(int64 x, int64 y) { return x < y ? x : y; }
RECURRENT_INLINE int64 parts_of(int64 size, int64 part) { return (size + part - 1) / part; }
RECURRENT_INLINE Vector load(const float* from) {
    Vector vector;
    __builtin_memcpy(&vector, from, sizeof(vector));
    return vector;
}

// One step of `width` hidden numbers from `at` on, of COUNT rows; rows of the pointers start at the first one's.
template <int COUNT, class Cell>
RECURRENT_APART void tile(float* out, float* kept, const float* before, const float* given, const float* bias,
                          const float* packed, int64 at, int64 width, int64 hidden) {
    constexpr int GATES = Cell::GATES;
    // Where registers are left components take turns: none waits for the one before.
    constexpr int TURNS = COUNT * GATES > SUMS / 2 ? 1 : COUNT * GATES > SUMS / 4 ? 2 : 4;
    Vector totals[COUNT][GATES] = {};
    for (int64 start = 0; start < hidden; start += CHUNK) {
        Vector sums[COUNT][GATES][TURNS] = {};
        const auto add = [&](int64 i, int turn) __attribute__((always_inline)) {
            Vector weights[GATES];
#pragma clang loop unroll(full)
            for (int g = 0; g < GATES; ++g) weights[g] = load(packed + (i * GATES + g) * LANES);
#pragma clang loop unroll(full)
            for (int r = 0; r < COUNT; ++r)
#pragma clang loop unroll(full)
                for (int g = 0; g < GATES; ++g) sums[r][g][turn % TURNS] += Vector(before[r * hidden + i]) * weights[g];
        };
        const int64 stop = least(hidden, start + CHUNK);
        int64 i = start;
        for (; i + 4 <= stop; i += 4) add(i, 0), add(i + 1, 1), add(i + 2, 2), add(i + 3, 3);
        for (; i < stop; ++i) add(i, 0);
#pragma clang loop unroll(full)
        for (int r = 0; r < COUNT; ++r)
#pragma clang loop unroll(full)
            for (int g = 0; g < GATES; ++g)
#pragma clang loop unroll(full)
                for (int turn = 0; turn < TURNS; ++turn) totals[r][g] += sums[r][g][turn];
    }
    for (int r = 0; r < COUNT; ++r) {
        alignas(64) float x[GATES][LANES] = {}, h[GATES][LANES] = {}, was[LANES] = {}, state[LANES] = {}, made[LANES];
        for (int g = 0; g < GATES; ++g) {
            __builtin_memcpy(h[g], &totals[r][g], sizeof(Vector));
            for (int64 l = 0; l < width; ++l) {
                x[g][l] = given[(r * GATES + g) * hidden + at + l];
                if (bias) h[g][l] += bias[g * hidden + at + l];
            }
        }
        for (int64 l = 0; l < width; ++l) {
            was[l] = before[r * hidden + at + l];
            if (Cell::KEEPS) state[l] = kept[r * hidden + at + l];
        }
#pragma clang loop vectorize(assume_safety)
        for (int l = 0; l < LANES; ++l) {
            float own_x[GATES], own_h[GATES];
#pragma clang loop unroll(full)
            for (int g = 0; g < GATES; ++g) own_x[g] = x[g][l], own_h[g] = h[g][l];
            made[l] = Cell::next(own_x, own_h, was[l], state[l]);
        }
        for (int64 l = 0; l < width; ++l) {
            out[r * hidden + at + l] = made[l];
            if (Cell::KEEPS) kept[r * hidden + at + l] = state[l];
        }
    }
}

// The same for any number of rows up to COUNT.
template <int COUNT, class Cell, class... Arguments> RECURRENT_INLINE void tiled(int64 rows, Arguments... arguments) {
    if (rows == COUNT)
        tile<COUNT, Cell>(arguments...);
    else if constexpr (COUNT > 1)
        tiled<COUNT - 1, Cell>(rows, arguments...);
}

template <class Cell>
static void layer(float* out, float* last, float* kept, const float* given, const float* first, const float* state,
                  const float* bias, const float* packed, int64 steps, int64 batch, int64 hidden, bool reversed) {
    constexpr int64 GATES = Cell::GATES;
    const int64 blocks = parts_of(hidden, LANES), size = batch * hidden;
    if (Cell::KEEPS) __builtin_memcpy(kept, state, size_t(size) * sizeof(float));
    const auto place = [=](int64 step) { return reversed ? steps - 1 - step : step; };
    // A step of some rows and of some blocks of hidden numbers; blocks are outside, so that their weights stay near.
    const auto advance = [=](int64 step, int64 top, int64 bottom, int64 begin, int64 end) {
        const int64 tall = parts_of(bottom - top, parts_of(bottom - top, ROWS<Cell>));
        const float* before = step ? out + place(step - 1) * size : first;
        for (int64 block = begin; block < end; ++block)
            for (int64 r = top; r < bottom; r += tall)
                tiled<ROWS<Cell>, Cell>(least(tall, bottom - r), out + place(step) * size + r * hidden,
                                        Cell::KEEPS ? kept + r * hidden : nullptr, before + r * hidden,
                                        given + (place(step) * batch + r) * GATES * hidden, bias,
                                        packed + block * hidden * GATES * LANES, block * LANES,
                                        least(LANES, hidden - block * LANES), hidden);
    };
    const int64 threads = kernelwright::thread_count(), row = hidden * hidden * GATES;
    if (batch >= threads * ROWS<Cell> || (batch >= 2 * threads && row <= SHARED)) {
        parallel_for(batch, GRAIN / (steps * row + 1) + 1, [&](int64 top, int64 bottom) {
            for (int64 step = 0; step < steps; ++step) advance(step, top, bottom, 0, blocks);
        });
    } else {
        const int64 grain = GRAIN / (batch * hidden * GATES * LANES + 1) + 1;
        for (int64 step = 0; step < steps; ++step)
            parallel_for(blocks, grain, [&](int64 begin, int64 end) { advance(step, 0, batch, begin, end); });
    }
    const float* final = steps ? out + place(steps - 1) * size : first;
    __builtin_memcpy(last, final, size_t(size) * sizeof(float));
}

// Of cells with a state of their own, with a bias and without.
template <class Cell, bool REVERSED>
static void run(float* out, float* last, float* kept, const float* given, const float* first, const float* state,
                const float* bias, const float* packed, int64 steps, int64 batch, int64 hidden) {
    layer<Cell>(out, last, kept, given, first, state, bias, packed, steps, batch, hidden, REVERSED);
}
template <class Cell, bool REVERSED>
static void run(float* out, float* last, float* kept, const float* given, const float* first, const float* state,
                const float* packed, int64 steps, int64 batch, int64 hidden) {
    layer<Cell>(out, last, kept, given, first, state, nullptr, packed, steps, batch, hidden, REVERSED);
}
// Of others.
template <class Cell, bool REVERSED>
static void run(float* out, float* last, const float* given, const float* first, const float* bias, const float* packed,
                int64 steps, int64 batch, int64 hidden) {
    layer<Cell>(out, last, nullptr, given, first, nullptr, bias, packed, steps, batch, hidden, REVERSED);
}

template <class Cell, bool REVERSED>
static void run(float* out, float* last, const float* given, const float* first, const float* packed, int64 steps,
                int64 batch, int64 hidden) {
    layer<Cell>(out, last, nullptr, given, first, nullptr, nullptr, packed, steps, batch, hidden, REVERSED);
}

// A weight [GATES * hidden][hidden] as `layer` reads it.
template <int GATES> static void pack(float* packed, const float* weight, int64 hidden) {
    parallel_for(parts_of(hidden, LANES), 1, [=](int64 begin, int64 end) {
        float* to = packed + begin * hidden * GATES * LANES;
        for (int64 block = begin; block < end; ++block)
            for (int64 i = 0; i < hidden; ++i)
                for (int64 g = 0; g < GATES; ++g)
                    for (int64 own = block * LANES; own < (block + 1) * LANES; ++own)
                        *to++ = own < hidden ? weight[(g * hidden + own) * hidden + i] : 0.0f;
    });
}

#undef RECURRENT_INLINE
#undef RECURRENT_APART

}  // namespace recurrent
