// Pooling over windows of (depth, height, width) of contiguous planes; 2-D and 1-D have sizes of 1 in front.
//
// An output row is made in two steps: the window's rows are joined element by element into one line (whole vectors,
// whatever the window is), then the line is joined along the width (stride and window are compile-time numbers, so
// that too becomes vectors). What lies outside of the plane is the neutral element, written into the line's margins.
//
//   x    [planes][depth][height][width]
//   out  [planes][out_depth][out_height][out_width]
//
// Maxima are NaN where the window holds one. Averages divide a sum kept in the wide type.
namespace pooling {

#define POOLING_INLINE static inline __attribute__((always_inline))

template <class T> struct Wide { typedef float Type; };
template <> struct Wide<double> { typedef double Type; };

struct Largest {
    template <class W> POOLING_INLINE W neutral() { return W(-__builtin_inf()); }
    template <class W> POOLING_INLINE W join(W a, W b) { return __builtin_elementwise_maximum(a, b); }
};
struct Total {
    template <class W> POOLING_INLINE W neutral() { return W(0); }
    template <class W> POOLING_INLINE W join(W a, W b) { return a + b; }
};

// One axis: output o sees the places o * stride - before + k * dilation, k < window, within [0, size).
struct Axis {
    int64 size, out, window, stride, before, dilation;
    int64 first(int64 o) const { return o * stride - before; }
    // Windows of an average end at the padding's end; `padded` counts the padding, else the plane alone.
    int64 counted(int64 o, bool padded) const {
        int64 begin = first(o), end = begin + window;
        if (end > size + before) end = size + before;
        if (padded) return end - begin;
        if (begin < 0) begin = 0;
        if (end > size) end = size;
        return end - begin;
    }
};

// Outputs of a row made at once: the line stays in the first-level cache.
constexpr int64 BLOCK = 256;

// AVERAGE: 0 the joined value itself, 1 over the window with padding, 2 over the places inside, > 2: over AVERAGE - 2.
template <class T, class Join, int64 WINDOW, int64 STRIDE, int64 DILATION, int64 AVERAGE>
POOLING_INLINE void windows(T* out, const T* x, int64 planes, int64 depth, int64 height, int64 width, int64 out_depth,
                            int64 out_height, int64 out_width, int64 window_d, int64 window_h, int64 stride_d,
                            int64 stride_h, int64 before_d, int64 before_h, int64 before_w, int64 dilation_d,
                            int64 dilation_h) {
    typedef typename Wide<T>::Type W;
    const Axis d = {depth, out_depth, window_d, stride_d, before_d, dilation_d};
    const Axis h = {height, out_height, window_h, stride_h, before_h, dilation_h};
    const Axis w = {width, out_width, WINDOW, STRIDE, before_w, DILATION};
    int64 work = out_width * (window_d * window_h * STRIDE + WINDOW);
    parallel_for(planes * out_depth * out_height, 65536 / work + 1, [=](int64 begin, int64 end) {
        alignas(64) W line[(BLOCK - 1) * STRIDE + (WINDOW - 1) * DILATION + 1];
        for (int64 row = begin; row < end; ++row) {
            int64 oh = row % out_height, od = row / out_height % out_depth, plane = row / (out_height * out_depth);
            const T* own = x + plane * depth * height * width;
            for (int64 start = 0; start < out_width; start += BLOCK) {
                int64 count = out_width - start < BLOCK ? out_width - start : BLOCK;
                int64 first = w.first(start), length = (count - 1) * STRIDE + (WINDOW - 1) * DILATION + 1;
                int64 low = first < 0 ? -first : 0;
                int64 high = first + length > width ? width - first : length;
                for (int64 i = 0; i < low; ++i) line[i] = Join::template neutral<W>();
                for (int64 i = high < low ? low : high; i < length; ++i) line[i] = Join::template neutral<W>();
                bool fresh = true;
                for (int64 kd = 0; kd < window_d; ++kd) {
                    int64 id = d.first(od) + kd * dilation_d;
                    if (id < 0 || id >= depth) continue;
                    for (int64 kh = 0; kh < window_h; ++kh) {
                        int64 ih = h.first(oh) + kh * dilation_h;
                        if (ih < 0 || ih >= height) continue;
                        const T* from = own + (id * height + ih) * width + first;
                        if (fresh) {
                            for (int64 i = low; i < high; ++i) line[i] = W(from[i]);
                        } else {
                            for (int64 i = low; i < high; ++i) line[i] = Join::template join<W>(line[i], W(from[i]));
                        }
                        fresh = false;
                    }
                }
                if (fresh)
                    for (int64 i = low; i < high; ++i) line[i] = Join::template neutral<W>();
                T* to = out + row * out_width + start;
                W over = AVERAGE > 2 ? W(AVERAGE - 2) : W(d.counted(od, AVERAGE == 1) * h.counted(oh, AVERAGE == 1));
                auto joined = [&](int64 o) __attribute__((always_inline)) {
                    W value = line[o * STRIDE];
#pragma clang loop unroll(full)
                    for (int64 k = 1; k < WINDOW; ++k)
                        value = Join::template join<W>(value, line[o * STRIDE + k * DILATION]);
                    return value;
                };
                constexpr bool counts = AVERAGE == 1 || AVERAGE == 2;
                if (!counts || (w.counted(start, AVERAGE == 1) == WINDOW &&
                                w.counted(start + count - 1, AVERAGE == 1) == WINDOW)) {
                    if (counts) over *= W(WINDOW);
#pragma clang loop vectorize(assume_safety)
                    for (int64 o = 0; o < count; ++o) to[o] = T(AVERAGE ? joined(o) / over : joined(o));
                } else {
                    for (int64 o = 0; o < count; ++o)
                        to[o] = T(joined(o) / (over * W(w.counted(start + o, AVERAGE == 1))));
                }
            }
        }
    });
}

// Windows that share a plane out among outputs: o sees [o * size / out, ceil((o + 1) * size / out)) on each axis.
template <class T, class Join, bool AVERAGE>
POOLING_INLINE void shares(T* out, const T* x, int64 planes, int64 depth, int64 height, int64 width, int64 out_depth,
                           int64 out_height, int64 out_width) {
    typedef typename Wide<T>::Type W;
    int64 work = depth * height * width / (out_depth * out_height) + 1;
    parallel_for(planes * out_depth * out_height, 32768 / work + 1, [=](int64 begin, int64 end) {
        alignas(64) W line[4096];
        for (int64 row = begin; row < end; ++row) {
            int64 oh = row % out_height, od = row / out_height % out_depth, plane = row / (out_height * out_depth);
            const T* own = x + plane * depth * height * width;
            int64 d0 = od * depth / out_depth, d1 = ((od + 1) * depth + out_depth - 1) / out_depth;
            int64 h0 = oh * height / out_height, h1 = ((oh + 1) * height + out_height - 1) / out_height;
            for (int64 id = d0; id < d1; ++id)
                for (int64 ih = h0; ih < h1; ++ih) {
                    const T* from = own + (id * height + ih) * width;
                    if (id == d0 && ih == h0) {
                        for (int64 i = 0; i < width; ++i) line[i] = W(from[i]);
                    } else {
                        for (int64 i = 0; i < width; ++i) line[i] = Join::template join<W>(line[i], W(from[i]));
                    }
                }
            for (int64 o = 0; o < out_width; ++o) {
                int64 w0 = o * width / out_width, w1 = ((o + 1) * width + out_width - 1) / out_width;
                W joined = line[w0];
                for (int64 i = w0 + 1; i < w1; ++i) joined = Join::template join<W>(joined, line[i]);
                if (AVERAGE) joined = joined / W((d1 - d0) * (h1 - h0) * (w1 - w0));
                out[row * out_width + o] = T(joined);
            }
        }
    });
}

#undef POOLING_INLINE

}  // namespace pooling
