// Moves of tiles between memory and the buffers that kernels work in.
namespace tiles {

#define KW_INLINE static inline __attribute__((always_inline))

template <class T> struct Sixteen {
    typedef T Aligned __attribute__((vector_size(16 * sizeof(T))));
    typedef T Vector __attribute__((vector_size(16 * sizeof(T)), aligned(sizeof(T))));
};
template <int bytes> struct Word;
template <> struct Word<1> { typedef uint8 Type; };
template <> struct Word<2> { typedef uint16 Type; };
template <> struct Word<4> { typedef uint32 Type; };
template <> struct Word<8> { typedef uint64 Type; };

// A block of 16 x 16 in registers: four times over, line k and line k + 8 are zipped into lines 2k and 2k + 1.
template <class T> KW_INLINE void transpose_block(T* __restrict to, int64 to_stride, const T* __restrict from, int64 from_stride) {
    typedef typename Sixteen<T>::Vector Vector;
    typename Sixteen<T>::Aligned a[16], b[16];
#pragma clang loop unroll(full)
    for (int k = 0; k < 16; k++) a[k] = *(const Vector*)(from + k * from_stride);
#pragma clang loop unroll(full)
    for (int round = 0; round < 4; round++) {
#pragma clang loop unroll(full)
        for (int k = 0; k < 8; k++) {
            b[2 * k] = __builtin_shufflevector(a[k], a[k + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            b[2 * k + 1] = __builtin_shufflevector(a[k], a[k + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
#pragma clang loop unroll(full)
        for (int k = 0; k < 16; k++) a[k] = b[k];
    }
#pragma clang loop unroll(full)
    for (int k = 0; k < 16; k++) *(Vector*)(to + k * to_stride) = a[k];
}

template <class T>
static __attribute__((noinline)) void transpose_words(T* __restrict to, int64 to_stride, const T* __restrict from, int64 from_stride, int64 rows, int64 columns) {
    int64 whole_rows = rows & -16, whole_columns = columns & -16;
    for (int64 r = 0; r < whole_rows; r += 16)
        for (int64 c = 0; c < whole_columns; c += 16)
            transpose_block(to + c * to_stride + r, to_stride, from + r * from_stride + c, from_stride);
    for (int64 r = 0; r < rows; r++)
        for (int64 c = r < whole_rows ? whole_columns : 0; c < columns; c++) to[c * to_stride + r] = from[r * from_stride + c];
}

// to[c * to_stride + r] = from[r * from_stride + c] for r < rows, c < columns. Strides in elements.
template <class T> KW_INLINE void transpose(T* to, int64 to_stride, const T* from, int64 from_stride, int64 rows, int64 columns) {
    typedef typename Word<sizeof(T)>::Type W;
    transpose_words((W*)to, to_stride, (const W*)from, from_stride, rows, columns);
}

// Copies `count` elements past the caches: for what is too large to be found there later. Stores of whole lines fetch
// nothing. The join of the threads orders them before whatever is read afterwards.
template <class T> KW_INLINE void stream(T* __restrict to, const T* __restrict from, int64 count) {
    typedef typename Word<sizeof(T)>::Type W;
    typedef W Line __attribute__((vector_size(64), may_alias));
    typedef W Loose __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));
    constexpr int64 step = 64 / sizeof(T);
    int64 head = int64((64 - (__UINTPTR_TYPE__)to % 64) % 64 / sizeof(T)), i = 0;
    if (head > count) head = count;
    for (; i < head; i++) to[i] = from[i];
    for (; i + 4 * step <= count; i += 4 * step) {
        Line a = *(const Loose*)(from + i), b = *(const Loose*)(from + i + step);
        Line c = *(const Loose*)(from + i + 2 * step), d = *(const Loose*)(from + i + 3 * step);
        __builtin_nontemporal_store(a, (Line*)(to + i));
        __builtin_nontemporal_store(b, (Line*)(to + i + step));
        __builtin_nontemporal_store(c, (Line*)(to + i + 2 * step));
        __builtin_nontemporal_store(d, (Line*)(to + i + 3 * step));
    }
    for (; i + step <= count; i += step) __builtin_nontemporal_store((Line)*(const Loose*)(from + i), (Line*)(to + i));
    for (; i < count; i++) to[i] = from[i];
}

#undef KW_INLINE

}  // namespace tiles
