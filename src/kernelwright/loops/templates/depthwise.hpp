// Depthwise convolution: every output channel sees one input channel through a window of its own.
//
//   x       [batch][channels][height][width]
//   weight  [channels * multiplier][WINDOW_H][WINDOW_W]
//   out     [batch][channels * multiplier][out_height][out_width]
//
// A task is a strip of an output plane's rows. The input rows it sees are first copied, padded and in the wide type,
// into a strip that stays in the second-level cache; then every output is one sum of products over compile-time offsets,
// in vectors along the width.
namespace depthwise {

#define DEPTHWISE_INLINE static inline __attribute__((always_inline))

template <class T> struct Wide { typedef float Type; };
template <> struct Wide<double> { typedef double Type; };

// Elements of the strip: lower_depthwise.py sees to it that the rows of one output row fit.
constexpr int64 STRIP = 16384;

template <class T, int64 WINDOW_H, int64 WINDOW_W, int64 STRIDE_H, int64 STRIDE_W, int64 DILATION_H, int64 DILATION_W>
DEPTHWISE_INLINE void run(T* __restrict out, const T* __restrict x, const T* __restrict weight,
                          const T* __restrict bias, int64 batch, int64 channels, int64 multiplier, int64 height,
                          int64 width, int64 out_height, int64 out_width, int64 before_h, int64 before_w) {
    typedef typename Wide<T>::Type W;
    constexpr int64 span_h = (WINDOW_H - 1) * DILATION_H + 1, span_w = (WINDOW_W - 1) * DILATION_W + 1;
    const int64 pitch = (out_width - 1) * STRIDE_W + span_w;
    int64 rows = (STRIP / pitch - span_h) / STRIDE_H + 1;
    if (rows > out_height) rows = out_height;
    const int64 strips = (out_height + rows - 1) / rows, work = rows * out_width * WINDOW_H * WINDOW_W;
    parallel_for(batch * channels * multiplier * strips, 262144 / work + 1, [=](int64 begin, int64 end) {
        alignas(64) W strip[STRIP];
        W taps[WINDOW_H * WINDOW_W];
        for (int64 task = begin; task < end; ++task) {
            int64 first = task % strips * rows, plane = task / strips, channel = plane % (channels * multiplier);
            const T* own = x + (plane / (channels * multiplier) * channels + channel / multiplier) * height * width;
            int64 last = first + rows < out_height ? first + rows : out_height;
            int64 top = first * STRIDE_H - before_h, copied = (last - first - 1) * STRIDE_H + span_h;
            int64 end_w = width + before_w < pitch ? width + before_w : pitch;
            for (int64 r = 0; r < copied; ++r) {
                W* to = strip + r * pitch;
                bool inside = top + r >= 0 && top + r < height;
                const T* from = own + (top + r) * width - before_w;
                if (!inside) {
                    for (int64 i = 0; i < pitch; ++i) to[i] = W(0);
                    continue;
                }
                for (int64 i = 0; i < before_w; ++i) to[i] = W(0);
                for (int64 i = before_w; i < end_w; ++i) to[i] = W(from[i]);
                for (int64 i = end_w; i < pitch; ++i) to[i] = W(0);
            }
            for (int64 k = 0; k < WINDOW_H * WINDOW_W; ++k) taps[k] = W(weight[channel * WINDOW_H * WINDOW_W + k]);
            const W start = bias ? W(bias[channel]) : W(0);
            for (int64 oh = first; oh < last; ++oh) {
                const W* from = strip + (oh - first) * STRIDE_H * pitch;
                T* to = out + (plane * out_height + oh) * out_width;
#pragma clang loop vectorize(assume_safety) interleave_count(2)
                for (int64 o = 0; o < out_width; ++o) {
                    W sum = start;
#pragma clang loop unroll(full)
                    for (int64 kh = 0; kh < WINDOW_H; ++kh)
#pragma clang loop unroll(full)
                        for (int64 kw = 0; kw < WINDOW_W; ++kw)
                            sum += taps[kh * WINDOW_W + kw] * from[kh * DILATION_H * pitch + o * STRIDE_W + kw * DILATION_W];
                    to[o] = T(sum);
                }
            }
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

}  // namespace depthwise
