// Convolutions and transposed convolutions in up to three dimensions, float32, any groups, strides and dilations.
//
//   x       [batch][groups * inner][depth][height][width]
//   packed  [groups][tiles of outer][phase][kernel depth][inner][taps of the phase][CHANNELS]
//   out     [batch][groups * outer][out_depth][out_height][out_width]
//
// Along each axis an output o = q * phases + r sees through tap k the input (q + shift) * step + from, where r, shift
// and from depend on k alone: a convolution has a stride as `step` and one phase, a transposed one has a step of 1 and
// a stride of phases, each of them with its own few taps. No zeros are put between inputs.
//
// A task is a tile of rows and columns of q in one output plane. The inputs it sees are copied once, padded, into a
// strip, a plane for each place within a step. On a strip all taps are mere offsets, so the rows of a tile are one long
// row: lanes are neighbours in it, whatever the width is, and the columns between two rows are computed in vain.
namespace convolutions {

#if defined(__AVX512F__)
constexpr int LANES = 16, CHANNELS = 8;
#elif defined(__AVX2__)
constexpr int LANES = 8, CHANNELS = 4;
#elif defined(__aarch64__)
constexpr int LANES = 4, CHANNELS = 8;
#else
constexpr int LANES = 4, CHANNELS = 4;
#endif
typedef float Vector __attribute__((ext_vector_type(LANES)));

// CHANNELS * VECTORS sums, the inputs and a broadcast weight fill the registers.
constexpr int VECTORS = 3;
constexpr int64 BLOCK = LANES * VECTORS;
// Products summed up in registers before they are added to the sums of those before: a sum of all in one go has up to
// 1.7 times the error of libraries' sums, this at most 1.3 times.
constexpr int64 DEPTH = 32;

// In floats. lower_convolution.py sees to it that the planes of one row of LEAST_COLUMNS fit into the strip.
constexpr int64 STRIP = 65536;
constexpr int64 SUMS = 2048;
constexpr int64 LEAST_COLUMNS = 16, MOST_COLUMNS = 512;
constexpr int64 MOST_TAPS = 32, MOST_WINDOW = 512, MOST_PLANES = 4096;

#define CONVOLUTION_INLINE static inline __attribute__((always_inline))
#define CONVOLUTION_APART static __attribute__((noinline))

struct Axis {
    int64 size, out, taps, phases, step;
    // Of each tap, as above; `place` numbers the distinct values of `from`.
    int64 phase[MOST_TAPS], shift[MOST_TAPS], place[MOST_TAPS];
    int64 places, from[MOST_TAPS];
    int64 low, high;  // the least and the greatest shift

    __attribute__((noinline)) Axis(int64 size, int64 out, int64 taps, int64 stride, int64 before, int64 dilation, bool transposed)
        : size(size), out(out), taps(taps), phases(transposed ? stride : 1), step(transposed ? 1 : stride), places(0) {
        for (int64 k = 0; k < taps; ++k) {
            const int64 at = transposed ? before - k * dilation : k * dilation - before;
            const int64 rest = (at % stride + stride) % stride, whole = (at - rest) / stride;
            // A transposed tap reaches the phase that makes its distance whole: r + at is a multiple of the stride.
            phase[k] = transposed ? (stride - rest) % stride : 0;
            shift[k] = transposed && rest ? whole + 1 : whole;
            const int64 own = transposed ? 0 : rest;
            int64 p = 0;
            while (p < places && from[p] != own) ++p;
            if (p == places) from[places++] = own;
            place[k] = p;
            if (k == 0 || shift[k] < low) low = shift[k];
            if (k == 0 || shift[k] > high) high = shift[k];
        }
    }
    int64 span() const { return high - low; }
    // How many q there are, and how many of a phase.
    int64 count() const { return (out + phases - 1) / phases; }
    int64 count(int64 r) const { return (out - r + phases - 1) / phases; }
    int64 taps_of(int64 r) const {
        int64 found = 0;
        for (int64 k = 0; k < taps; ++k) found += phase[k] == r;
        return found;
    }
};

// The taps of a plane: those of each phase in order, and where they lie in a strip.
struct Taps {
    int64 first[MOST_WINDOW + 1], offset[MOST_WINDOW], number[MOST_WINDOW];

    // `plane` is the distance of two places' planes.
    __attribute__((noinline)) void fill(const Axis& h, const Axis& w, int64 pitch, int64 plane) {
        int64 found = 0;
        for (int64 phase = 0; phase < h.phases * w.phases; ++phase) {
            first[phase] = found;
            for (int64 kh = 0; kh < h.taps; ++kh)
                for (int64 kw = 0; kw < w.taps; ++kw) {
                    if (h.phase[kh] != phase / w.phases || w.phase[kw] != phase % w.phases) continue;
                    offset[found] = (h.place[kh] * w.places + w.place[kw]) * plane + (h.shift[kh] - h.low) * pitch +
                                    w.shift[kw] - w.low;
                    number[found++] = kh * w.taps + kw;
                }
        }
        first[h.phases * w.phases] = found;
    }
};

CONVOLUTION_INLINE Vector load(const float* from) {
    Vector vector;
    __builtin_memcpy(&vector, from, sizeof(vector));
    return vector;
}
CONVOLUTION_INLINE void store(float* to, Vector vector) { __builtin_memcpy(to, &vector, sizeof(vector)); }

// What a tile is summed up from: inner planes `begin` to `end` - 1 of the strip, each through all taps.
struct Terms {
    const float* strip;
    int64 plane;
    const int64* weight_rows;  // of each plane
    const float* weights;
    const int64* offsets;
    int64 taps, begin, end;
};

// sums[c][i] (+)= the terms of channel c at place i, for COUNT channels and WIDE vectors of places.
template <int COUNT, int WIDE>
CONVOLUTION_APART void tile(float* to, int64 to_row, bool more, int64 at, const Terms& terms) {
    Vector sums[COUNT][WIDE] = {};
    const int64 taps = terms.taps;
    const int64* offsets = terms.offsets;
    for (int64 p = terms.begin; p < terms.end; ++p) {
        const float* from = terms.strip + p * terms.plane + at;
        const float* weight = terms.weights + terms.weight_rows[p] * taps * CHANNELS;
        for (int64 t = 0; t < taps; ++t, weight += CHANNELS) {
            Vector x[WIDE];
            const float* own = from + offsets[t];
#pragma clang loop unroll(full)
            for (int v = 0; v < WIDE; ++v) x[v] = load(own + v * LANES);
#pragma clang loop unroll(full)
            for (int c = 0; c < COUNT; ++c)
#pragma clang loop unroll(full)
                for (int v = 0; v < WIDE; ++v)
                    sums[c][v] = __builtin_elementwise_fma(Vector(weight[c]), x[v], sums[c][v]);
        }
    }
#pragma clang loop unroll(full)
    for (int c = 0; c < COUNT; ++c)
#pragma clang loop unroll(full)
        for (int v = 0; v < WIDE; ++v) {
            float* own = to + c * to_row + v * LANES;
            store(own, more ? load(own) + sums[c][v] : sums[c][v]);
        }
}

template <int COUNT>
CONVOLUTION_INLINE void long_row(float* to, int64 to_row, bool more, int64 places, const Terms& terms) {
    int64 at = 0;
    for (; at + BLOCK <= places; at += BLOCK) tile<COUNT, VECTORS>(to + at, to_row, more, at, terms);
    for (; at < places; at += LANES) tile<COUNT, 1>(to + at, to_row, more, at, terms);
}

// As many channels as there are, up to a power of two.
CONVOLUTION_INLINE void channels(int64 count, float* to, int64 to_row, bool more, int64 places, const Terms& terms) {
    if (CHANNELS == 8 && count > 4) long_row<CHANNELS>(to, to_row, more, places, terms);
    else if (count > 2) long_row<4>(to, to_row, more, places, terms);
    else if (count == 2) long_row<2>(to, to_row, more, places, terms);
    else long_row<1>(to, to_row, more, places, terms);
}

// A plane of the input as a strip has it: places[h][w][rows][pitch], q counted from (top, left).
CONVOLUTION_INLINE void copy(float* to, const float* x, const Axis& h, const Axis& w, int64 top, int64 left, int64 rows,
                             int64 pitch) {
    for (int64 ph = 0; ph < h.places; ++ph)
        for (int64 pw = 0; pw < w.places; ++pw) {
            // Columns left + i with 0 <= (left + i) * step + from < size.
            const int64 begin = w.step, from = w.from[pw];
            int64 inside = left < 0 ? -left : 0, end = (w.size - from + begin - 1) / begin - left;
            if (end > pitch) end = pitch;
            if (end < 0) end = 0;
            if (inside > end) inside = end;
            for (int64 row = 0; row < rows; ++row, to += pitch) {
                const int64 y = (top + row) * h.step + h.from[ph];
                const int64 first = y >= 0 && y < h.size ? inside : 0, last = y >= 0 && y < h.size ? end : 0;
                const float* own = x + y * w.size + left * w.step + from;
                for (int64 i = 0; i < first; ++i) to[i] = 0.0f;
                if (w.step == 1)
                    __builtin_memcpy(to + first, own + first, size_t(last - first) * sizeof(float));
                else
                    for (int64 i = first; i < last; ++i) to[i] = own[i * w.step];
                for (int64 i = last; i < pitch; ++i) to[i] = 0.0f;
            }
        }
}

// A row of the result from the sums of its PHASES phases, each `distance` from the next one's.
template <int64 PHASES, class Then>
CONVOLUTION_INLINE void finish(float* __restrict to, const float* __restrict sums, int64 distance, int64 columns,
                               const Then& then) {
    const int64 whole = columns / PHASES;
#pragma clang loop vectorize(assume_safety)
    for (int64 i = 0; i < whole; ++i)
#pragma clang loop unroll(full)
        for (int64 r = 0; r < PHASES; ++r) to[i * PHASES + r] = then(sums[r * distance + i], i * PHASES + r);
    for (int64 i = whole * PHASES; i < columns; ++i) to[i] = then(sums[i % PHASES * distance + whole], i);
}

struct Window {
    int64 d, h, w;
};

struct Sizes {
    int64 batch, groups, inner, outer;
    Window in, out, taps, stride, before, dilation;
};

// How a convolution is shared out, the same for all of its tasks.
struct Plan {
    Sizes s;
    Axis d, h, w;
    // Of a tile, in q; `pitch` and `plane` are the strip's distances of two rows and of two planes.
    int64 columns, rows, pitch, plane;
    int64 down, across, tiles, shares, tasks;
    // Places for the sums of a channel of one phase of the width.
    int64 room;
    Taps taps;

    __attribute__((noinline)) Plan(const Sizes& sizes, bool transposed)
        : s(sizes),
          d(s.in.d, s.out.d, s.taps.d, s.stride.d, s.before.d, s.dilation.d, transposed),
          h(s.in.h, s.out.h, s.taps.h, s.stride.h, s.before.h, s.dilation.h, transposed),
          w(s.in.w, s.out.w, s.taps.w, s.stride.w, s.before.w, s.dilation.w, transposed),
          room(SUMS / w.phases / BLOCK * BLOCK) {
        int64 deep = 0;
        for (int64 r = 0; r < d.phases; ++r) deep = d.taps_of(r) > deep ? d.taps_of(r) : deep;
        const int64 planes = deep * s.inner * places();
        columns = even(w.count(), room < MOST_COLUMNS ? room : MOST_COLUMNS);
        while (columns > LEAST_COLUMNS && planes * (1 + h.span()) * (columns + w.span()) > STRIP)
            columns = (columns + 1) / 2;
        pitch = columns + w.span();
        rows = STRIP / (planes * pitch) - h.span();
        if (rows > (room - columns) / pitch + 1) rows = (room - columns) / pitch + 1;
        rows = even(h.count(), rows);
        plane = (rows + h.span()) * pitch;
        down = (h.count() + rows - 1) / rows;
        across = (w.count() + columns - 1) / columns;
        tiles = (s.outer + CHANNELS - 1) / CHANNELS;
        tasks = s.batch * s.groups * d.out * down * across;
        // With few tiles of the result its channels are shared out too.
        shares = tasks ? (4 * kernelwright::thread_count() + tasks - 1) / tasks : 1;
        if (shares > tiles) shares = tiles;
        tasks *= shares;
        taps.fill(h, w, pitch, plane);
    }
    int64 places() const { return h.places * w.places; }
    int64 weights_of_tile() const { return d.taps * s.inner * h.taps * w.taps; }
    // The size of equal parts of at most `most`.
    static int64 even(int64 count, int64 most) {
        if (count <= most) return count;
        const int64 parts = (count + most - 1) / most;
        return (count + parts - 1) / parts;
    }
};

// Where a task stands.
struct Tile {
    int64 image, group, od, row, column, first, last;  // channels first to last - 1, in tiles

    Tile(const Plan& p, int64 task) {
        const int64 share = task % p.shares, at = task / p.shares;
        column = at % p.across * p.columns;
        row = at / p.across % p.down * p.rows;
        od = at / p.across / p.down % p.d.out;
        image = at / p.across / p.down / p.d.out;  // with the group
        group = image % p.s.groups;
        first = share * p.tiles / p.shares;
        last = (share + 1) * p.tiles / p.shares;
    }
};

// The inputs of a tile, and of each plane in the strip the row of its weights; the number of planes.
CONVOLUTION_APART int64 fill(float* strip, int64* weight_rows, const float* x, const Plan& p, const Tile& tile) {
    int64 filled = 0;
    for (int64 kd = 0; kd < p.d.taps; ++kd) {
        const int64 z = (tile.od / p.d.phases + p.d.shift[kd]) * p.d.step + p.d.from[p.d.place[kd]];
        if (p.d.phase[kd] != tile.od % p.d.phases || z < 0 || z >= p.d.size) continue;
        for (int64 i = 0; i < p.s.inner; ++i) {
            const float* own = x + ((tile.image * p.s.inner + i) * p.d.size + z) * p.h.size * p.w.size;
            copy(strip + filled * p.places() * p.plane, own, p.h, p.w, tile.row + p.h.low, tile.column + p.w.low,
                 p.rows + p.h.span(), p.pitch);
            weight_rows[filled++] = kd * p.s.inner + i;
        }
    }
    return filled;
}

// The sums of a tile of `count` channels and one phase of the rows: sums[channel][phase of the columns][place].
CONVOLUTION_APART void sum_up(float* sums, const float* strip, const int64* weight_rows, int64 filled,
                              const float* weights, int64 count, int64 rh, int64 places, const Plan& p) {
    for (int64 rw = 0; rw < p.w.phases; ++rw) {
        const int64 phase = rh * p.w.phases + rw, first = p.taps.first[phase];
        const int64 own = p.taps.first[phase + 1] - first, all = own ? filled : 0;
        const int64 chunk = own && own < DEPTH ? DEPTH / own : 1;
        for (int64 q = 0; q < all || q == 0; q += chunk)
            channels(count, sums + rw * p.room, SUMS, q > 0, places,
                     Terms{strip, p.places() * p.plane, weight_rows, weights + first * p.d.taps * p.s.inner * CHANNELS,
                           p.taps.offset + first, own, q, all - q < chunk ? all : q + chunk});
    }
}

// `then(value, channel, index)` makes an element of the result from its sum; `index` is its place in `out`.
template <bool TRANSPOSED, int64 PHASES, class Then>
CONVOLUTION_INLINE void run(float* out, const float* x, const float* packed, const Sizes& sizes, const Then& then) {
    const Plan p(sizes, TRANSPOSED);
    parallel_for(p.tasks, 1, [&](int64 begin, int64 end) {
        alignas(64) float strip[STRIP + 2 * BLOCK];
        alignas(64) float sums[CHANNELS * SUMS];
        int64 weight_rows[MOST_PLANES];
        for (int64 task = begin; task < end; ++task) {
            const Tile t(p, task);
            const int64 filled = fill(strip, weight_rows, x, p, t);
            const int64 height = p.h.count() - t.row < p.rows ? p.h.count() - t.row : p.rows;
            const int64 at = t.column * PHASES;
            const int64 width = p.w.out - at < p.columns * PHASES ? p.w.out - at : p.columns * PHASES;
            for (int64 tile = t.first * p.h.phases; tile < t.last * p.h.phases; ++tile) {
                const int64 first = tile / p.h.phases * CHANNELS, rh = tile % p.h.phases;
                const int64 count = p.s.outer - first < CHANNELS ? p.s.outer - first : CHANNELS;
                const float* weights =
                    packed + (t.group * p.tiles + tile / p.h.phases) * p.weights_of_tile() * CHANNELS;
                sum_up(sums, strip, weight_rows, filled, weights, count, rh, (height - 1) * p.pitch + p.columns, p);
                // Rows that lie side by side both in the sums and in the result are finished as one.
                const bool whole = p.h.phases == 1 && p.pitch * PHASES == p.w.out;
                for (int64 c = 0; c < count; ++c)
                    for (int64 y = 0; y < height && (t.row + y) * p.h.phases + rh < p.h.out; y += whole ? height : 1) {
                        const int64 plane = (t.image * p.s.outer + first + c) * p.d.out + t.od;
                        const int64 to = (plane * p.h.out + (t.row + y) * p.h.phases + rh) * p.w.out + at;
                        const int64 channel = t.group * p.s.outer + first + c;
                        finish<PHASES>(out + to, sums + c * SUMS + y * p.pitch, p.room, whole ? height * width : width,
                                       [=](float value, int64 i) { return then(value, channel, to + i); });
                    }
            }
        }
    });
}

// Weights are [outer][inner][window] for each group, or of a transposed convolution [inner][outer][window].
CONVOLUTION_APART void pack(float* packed, const float* weights, int64 groups, int64 inner, int64 outer,
                            const Window& taps, const Window& stride, const Window& before, const Window& dilation,
                            bool transposed) {
    const Axis h(0, 0, taps.h, stride.h, before.h, dilation.h, transposed);
    const Axis w(0, 0, taps.w, stride.w, before.w, dilation.w, transposed);
    Taps order;
    order.fill(h, w, 0, 0);
    const int64 tiles = (outer + CHANNELS - 1) / CHANNELS, window = taps.h * taps.w, whole = taps.d * window;
    parallel_for(groups * tiles, 1, [&](int64 begin, int64 end) {
        for (int64 task = begin; task < end; ++task) {
            const int64 group = task / tiles, channel = task % tiles * CHANNELS;
            float* to = packed + task * whole * inner * CHANNELS;
            for (int64 phase = 0; phase < h.phases * w.phases; ++phase)
                for (int64 kd = 0; kd < taps.d; ++kd)
                    for (int64 i = 0; i < inner; ++i)
                        for (int64 t = order.first[phase]; t < order.first[phase + 1]; ++t)
                            for (int64 c = channel; c < channel + CHANNELS; ++c) {
                                const int64 row = transposed ? (group * inner + i) * outer + c
                                                             : (group * outer + c) * inner + i;
                                *to++ = c < outer ? weights[row * whole + kd * window + order.number[t]] : 0.0f;
                            }
        }
    });
}

template <bool TRANSPOSED, Window TAPS, Window STRIDE, Window BEFORE, Window DILATION>
CONVOLUTION_INLINE void pack(float* packed, const float* weights, int64 groups, int64 inner, int64 outer) {
    pack(packed, weights, groups, inner, outer, TAPS, STRIDE, BEFORE, DILATION, TRANSPOSED);
}

#undef CONVOLUTION_INLINE
#undef CONVOLUTION_APART

}  // namespace convolutions
