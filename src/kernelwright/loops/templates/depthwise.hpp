// Depthwise convolution: every output channel sees one input channel through a window of its own.
//
//   x       [batch][channels][height][width]
//   weight  [channels * multiplier][WINDOW_H][WINDOW_W]
//   out     [batch][channels * multiplier][out_height][out_width]
//
// A task is some rows of an output plane. The input rows it sees are first copied, padded and in the wide type, into a
// strip that stays in the second-level cache: strip[row][STRIDE_W][out_width + REACH_W], places a stride apart side by
// side, so that every tap is a mere offset. Then ROWS x VECTORS sums are made at a time in registers, over compile-time
// offsets: what is read of an input row serves all output rows that see it.
namespace depthwise {

#define DEPTHWISE_INLINE static inline __attribute__((always_inline))
#define DEPTHWISE_APART static __attribute__((noinline))

#if defined(__AVX512F__)
constexpr int BYTES = 64;
#elif defined(__AVX2__)
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif

template <class T> struct Wide { typedef float Type; };
template <> struct Wide<double> { typedef double Type; };
template <class W> using Vector = W __attribute__((vector_size(BYTES)));

// Sums in flight: enough to hide how long a product takes, few enough for 16 registers.
constexpr int ROWS = 4, VECTORS = 2;
// Elements of the strip: lower_depthwise.py sees to it that the rows of one output row fit.
constexpr int64 STRIP = 16384;

template <int64 WINDOW_, int64 STRIDE_, int64 DILATION_> struct Axis {
    static constexpr int64 WINDOW = WINDOW_, STRIDE = STRIDE_, DILATION = DILATION_, SPAN = (WINDOW - 1) * DILATION + 1;
    // Steps of the stride from an output's first place to its last.
    static constexpr int64 REACH = (SPAN - 1) / STRIDE;
};

// COUNT rows of WIDE vectors: to[r][...] from the strip's rows r * H::STRIDE + kh * H::DILATION.
template <class T, class H, class V, int COUNT, int WIDE>
DEPTHWISE_APART void tile(T* to, int64 to_pitch, const typename Wide<T>::Type* from, int64 pitch,
                          const typename Wide<T>::Type* taps, typename Wide<T>::Type start) {
    typedef typename Wide<T>::Type W;
    constexpr int LANES = BYTES / sizeof(W);
    Vector<W> sums[COUNT][WIDE];
#pragma clang loop unroll(full)
    for (int r = 0; r < COUNT; ++r)
#pragma clang loop unroll(full)
        for (int v = 0; v < WIDE; ++v) sums[r][v] = Vector<W>{} + start;
#pragma clang loop unroll(full)
    for (int64 row = 0; row < (COUNT - 1) * H::STRIDE + H::SPAN; ++row)
#pragma clang loop unroll(full)
        for (int64 kw = 0; kw < V::WINDOW; ++kw) {
            const int64 place = kw * V::DILATION;
            const W* own = from + (row * V::STRIDE + place % V::STRIDE) * pitch + place / V::STRIDE;
            Vector<W> x[WIDE];
#pragma clang loop unroll(full)
            for (int v = 0; v < WIDE; ++v) __builtin_memcpy(&x[v], own + v * LANES, sizeof(x[v]));
#pragma clang loop unroll(full)
            for (int r = 0; r < COUNT; ++r) {
                const int64 down = row - r * H::STRIDE;
                if (down < 0 || down % H::DILATION || down / H::DILATION >= H::WINDOW) continue;
                const W tap = taps[down / H::DILATION * V::WINDOW + kw];
#pragma clang loop unroll(full)
                for (int v = 0; v < WIDE; ++v) sums[r][v] += x[v] * tap;
            }
        }
#pragma clang loop unroll(full)
    for (int r = 0; r < COUNT; ++r)
#pragma clang loop unroll(full)
        for (int v = 0; v < WIDE; ++v)
#pragma clang loop vectorize(assume_safety)
            for (int i = 0; i < LANES; ++i) to[r * to_pitch + v * LANES + i] = T(sums[r][v][i]);
}

// COUNT output rows. The last vectors reach back over what is there already: a row has at least one vector.
template <class T, class H, class V, int COUNT>
DEPTHWISE_INLINE void rows(T* to, int64 width, const typename Wide<T>::Type* from, int64 pitch,
                           const typename Wide<T>::Type* taps, typename Wide<T>::Type start) {
    constexpr int64 LANES = BYTES / sizeof(typename Wide<T>::Type), BLOCK = VECTORS * LANES;
    int64 at = 0;
    for (; at + BLOCK <= width; at += BLOCK) tile<T, H, V, COUNT, VECTORS>(to + at, width, from + at, pitch, taps, start);
    for (; at < width; at += LANES) {
        const int64 own = at + LANES <= width ? at : width - LANES;
        tile<T, H, V, COUNT, 1>(to + own, width, from + own, pitch, taps, start);
    }
}

// A row of the plane as the strip has it; null stands for one of zeros.
template <class T, class V>
DEPTHWISE_INLINE void copy(typename Wide<T>::Type* to, const T* x, int64 width, int64 before, int64 pitch) {
    typedef typename Wide<T>::Type W;
    for (int64 phase = 0; phase < V::STRIDE; ++phase, to += pitch) {
        // Places i * STRIDE + phase - before within the plane.
        int64 begin = before > phase ? (before - phase + V::STRIDE - 1) / V::STRIDE : 0;
        int64 end = (width + before - phase + V::STRIDE - 1) / V::STRIDE;
        if (end > pitch) end = pitch;
        if (!x || end < begin) begin = end = 0;
        for (int64 i = 0; i < begin; ++i) to[i] = W(0);
        for (int64 i = begin; i < end; ++i) to[i] = W(x[i * V::STRIDE + phase - before]);
        for (int64 i = end; i < pitch; ++i) to[i] = W(0);
    }
}

template <class T, int64 WINDOW_H, int64 WINDOW_W, int64 STRIDE_H, int64 STRIDE_W, int64 DILATION_H, int64 DILATION_W>
DEPTHWISE_INLINE void run(T* __restrict out, const T* __restrict x, const T* __restrict weight,
                          const T* __restrict bias, int64 batch, int64 channels, int64 multiplier, int64 height,
                          int64 width, int64 out_height, int64 out_width, int64 before_h, int64 before_w) {
    typedef typename Wide<T>::Type W;
    typedef Axis<WINDOW_H, STRIDE_H, DILATION_H> H;
    typedef Axis<WINDOW_W, STRIDE_W, DILATION_W> V;
    const int64 pitch = out_width + V::REACH, row = pitch * STRIDE_W;
    int64 most = (STRIP / row - H::SPAN) / STRIDE_H + 1;
    if (most > ROWS) most -= most % ROWS;
    if (most > out_height) most = out_height;
    const int64 strips = (out_height + most - 1) / most, work = most * out_width * WINDOW_H * WINDOW_W;
    parallel_for(batch * channels * multiplier * strips, 262144 / work + 1, [=](int64 begin, int64 end) {
        alignas(64) W strip[STRIP];
        W taps[WINDOW_H * WINDOW_W];
        for (int64 task = begin; task < end; ++task) {
            int64 first = task % strips * most, plane = task / strips, channel = plane % (channels * multiplier);
            const T* own = x + (plane / (channels * multiplier) * channels + channel / multiplier) * height * width;
            const int64 count = first + most < out_height ? most : out_height - first;
            const int64 top = first * STRIDE_H - before_h, copied = (count - 1) * STRIDE_H + H::SPAN;
            for (int64 r = 0; r < copied; ++r) {
                const bool inside = top + r >= 0 && top + r < height;
                copy<T, V>(strip + r * row, inside ? own + (top + r) * width : nullptr, width, before_w, pitch);
            }
            for (int64 k = 0; k < WINDOW_H * WINDOW_W; ++k) taps[k] = W(weight[channel * WINDOW_H * WINDOW_W + k]);
            const W start = bias ? W(bias[channel]) : W(0);
            T* to = out + (plane * out_height + first) * out_width;
            int64 r = 0;
            if (WINDOW_H > 1)
                for (; r + ROWS <= count; r += ROWS)
                    rows<T, H, V, ROWS>(to + r * out_width, out_width, strip + r * STRIDE_H * row, pitch, taps, start);
            for (; r < count; ++r)
                rows<T, H, V, 1>(to + r * out_width, out_width, strip + r * STRIDE_H * row, pitch, taps, start);
        }
    });
}

template <class T, int64 WINDOW_H, int64 WINDOW_W, int64 STRIDE_H, int64 STRIDE_W, int64 DILATION_H, int64 DILATION_W>
DEPTHWISE_INLINE void run(T* out, const T* x, const T* weight, int64 batch, int64 channels, int64 multiplier,
                          int64 height, int64 width, int64 out_height, int64 out_width, int64 before_h,
                          int64 before_w) {
    run<T, WINDOW_H, WINDOW_W, STRIDE_H, STRIDE_W, DILATION_H, DILATION_W>(
        out, x, weight, static_cast<const T*>(nullptr), batch, channels, multiplier, height, width, out_height,
        out_width, before_h, before_w);
}

#undef DEPTHWISE_INLINE
#undef DEPTHWISE_APART

}  // namespace depthwise
