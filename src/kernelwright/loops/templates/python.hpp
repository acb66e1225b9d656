// What the text of Python loops stands on. Stands after kernelwright.hpp and math.hpp.
//
// Integers wrap as machine integers do; // and % round down as Python's do. Nothing is contracted to fused operations:
// a comparison in a loop must come out as Python's does.
#pragma clang fp contract(off)

struct KwError {
    int32 kind, line, column, argument, axis, set;
    int64 index, size;
};

namespace py {

#define PY_INLINE static inline __attribute__((always_inline))

template <class T> struct Unsigned { using type = T; };
template <> struct Unsigned<int8> { using type = uint8; };
template <> struct Unsigned<int16> { using type = uint16; };
template <> struct Unsigned<int32> { using type = uint32; };
template <> struct Unsigned<int64> { using type = uint64; };
template <class T> using Word = typename Unsigned<T>::type;

PY_INLINE float add(float a, float b) { return a + b; }
PY_INLINE float sub(float a, float b) { return a - b; }
PY_INLINE float mul(float a, float b) { return a * b; }
PY_INLINE double add(double a, double b) { return a + b; }
PY_INLINE double sub(double a, double b) { return a - b; }
PY_INLINE double mul(double a, double b) { return a * b; }
template <class T> PY_INLINE T add(T a, T b) { return T(Word<T>(a) + Word<T>(b)); }
template <class T> PY_INLINE T sub(T a, T b) { return T(Word<T>(a) - Word<T>(b)); }
template <class T> PY_INLINE T mul(T a, T b) { return T(Word<T>(a) * Word<T>(b)); }
template <class T> PY_INLINE T neg(T a) { return T(Word<T>(0) - Word<T>(a)); }

PY_INLINE float magnitude(float a) { return __builtin_fabsf(a); }
PY_INLINE double magnitude(double a) { return __builtin_fabs(a); }
template <class T> PY_INLINE T magnitude(T a) { return a < 0 ? neg(a) : a; }

PY_INLINE int64 floored_div(int64 a, int64 b) {
    if (b == -1) return neg(a);  // the machine's division traps on the smallest number
    int64 q = a / b;
    return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
PY_INLINE int64 floored_mod(int64 a, int64 b) {
    if (b == -1) return 0;
    int64 r = a % b;
    return r + (((r != 0) & ((r < 0) != (b < 0))) ? b : 0);
}
PY_INLINE uint64 floored_div(uint64 a, uint64 b) { return a / b; }
PY_INLINE uint64 floored_mod(uint64 a, uint64 b) { return a % b; }

PY_INLINE double remainder(double a, double b) { return __builtin_fmod(a, b); }
PY_INLINE float remainder(float a, float b) { return __builtin_fmodf(a, b); }
template <class F> PY_INLINE F floored_mod_of(F a, F b) {
    F r = remainder(a, b);
    if (r == 0) return b < 0 ? -F(0) : F(0);
    return (r < 0) != (b < 0) ? r + b : r;
}
PY_INLINE double floored_mod(double a, double b) { return floored_mod_of(a, b); }
PY_INLINE float floored_mod(float a, float b) { return floored_mod_of(a, b); }
template <class F> PY_INLINE F floored_div_of(F a, F b) {
    if (b == 0) return a / b;
    F r = remainder(a, b);
    F q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    F whole = math::floor(q);
    return q - whole > F(0.5) ? whole + 1 : whole;
}
PY_INLINE double floored_div(double a, double b) { return floored_div_of(a, b); }
PY_INLINE float floored_div(float a, float b) { return floored_div_of(a, b); }

template <class T> PY_INLINE T shift_left(T a, T n) { return uint64(n) > 63 ? T(0) : T(uint64(a) << n); }
PY_INLINE int64 shift_right(int64 a, int64 n) { return a >> (uint64(n) > 63 ? 63 : n); }
PY_INLINE uint64 shift_right(uint64 a, uint64 n) { return n > 63 ? 0 : a >> n; }

template <class T> PY_INLINE T power(T a, T n) {
    T result = 1;
    if (n < 0) return a == 1 ? T(1) : (a == T(-1) ? (n & 1 ? T(-1) : T(1)) : T(0));
    for (; n; n >>= 1) {
        if (n & 1) result = mul(result, a);
        a = mul(a, a);
    }
    return result;
}
PY_INLINE double power(double a, double b) { return __builtin_pow(a, b); }
PY_INLINE float power(float a, float b) { return __builtin_powf(a, b); }

template <class T, class F> PY_INLINE T whole(F x) {  // of what does not fit: the smallest number, as on x86
    constexpr F limit = F(9223372036854775808.0);
    return x >= -limit && x < limit ? T(int64(x)) : T(int64(1) << 63);
}

#define PY_LIBM1(name)                                              \
    PY_INLINE double name(double a) { return __builtin_##name(a); } \
    PY_INLINE float name(float a) { return __builtin_##name##f(a); }
#define PY_LIBM2(name)                                                           \
    PY_INLINE double name(double a, double b) { return __builtin_##name(a, b); } \
    PY_INLINE float name(float a, float b) { return __builtin_##name##f(a, b); }
PY_LIBM1(sin) PY_LIBM1(cos) PY_LIBM1(tan) PY_LIBM1(asin) PY_LIBM1(acos) PY_LIBM1(atan)
PY_LIBM1(sinh) PY_LIBM1(cosh) PY_LIBM1(asinh) PY_LIBM1(acosh) PY_LIBM1(atanh)
PY_LIBM1(exp2) PY_LIBM1(log2) PY_LIBM1(log10) PY_LIBM1(cbrt) PY_LIBM1(erfc) PY_LIBM1(lgamma)
PY_LIBM2(atan2) PY_LIBM2(hypot) PY_LIBM2(fmod) PY_LIBM2(copysign)
PY_INLINE double gamma(double a) { return __builtin_tgamma(a); }
PY_INLINE float gamma(float a) { return __builtin_tgammaf(a); }

// An index from the end counts from the start afterwards; true where there is no such element, the index as it was.
PY_INLINE bool outside(int64& i, int64 size) {
    if (__builtin_expect(uint64(i) < uint64(size), 1)) return false;
    if (i >= 0 || i + size < 0) return true;
    i += size;
    return false;
}

// Ends of index ranges.
PY_INLINE __int128 wide(int64 a) { return a; }
PY_INLINE __int128 least(__int128 a, __int128 b) { return a < b ? a : b; }
PY_INLINE __int128 most(__int128 a, __int128 b) { return a > b ? a : b; }
// a / b rounded down, or -1 for all below 0. A library would divide 128 bits, and ends that matter have 64.
PY_INLINE __int128 halved(__int128 a, int64 b) {
    constexpr int64 largest = 9223372036854775807;
    return a < 0 ? -1 : (a > largest ? a : __int128(int64(a) / b));
}

// ---- loops on several threads -----------------------------------------------------------------------------------

PY_INLINE int64 turns(int64 start, int64 stop, int64 step) {
    if (step > 0) return stop > start ? (stop - start + step - 1) / step : 0;
    return start > stop ? (start - stop - step - 1) / -step : 0;
}
PY_INLINE int64 grain(int64 worth, int64 work) { return work < 1 ? worth : worth / work + 1; }
PY_INLINE int64 parts(int64 count, int64 grain, int64 most) {
    int64 wanted = grain > 0 ? count / grain : 0;
    if (most > 32) most = 32;
    return wanted < 1 ? 1 : (wanted < most ? wanted : most);
}
PY_INLINE int64 first(int64 part, int64 count, int64 parts) {
    int64 size = count / parts, rest = count % parts;
    return part * size + (part < rest ? part : rest);
}
template <class T> PY_INLINE T lowest() { return T(-1) < T(0) ? T(T(1) << (8 * sizeof(T) - 1)) : T(0); }

template <class T> struct Scratch {
    T* data;
    explicit Scratch(int64 count) : data(count > 0 ? static_cast<T*>(__builtin_malloc(count * sizeof(T))) : nullptr) {}
    ~Scratch() { __builtin_free(data); }
};

// Whether two arrays (data, shape..., strides...) have no byte in common.
__attribute__((unused)) static bool apart(
    const int64* a, int32 a_axes, int32 a_bytes, const int64* b, int32 b_axes, int32 b_bytes) {
    int64 low[2] = {a[0], b[0]}, high[2] = {a[0] + a_bytes, b[0] + b_bytes};
    for (int32 which = 0; which < 2; ++which) {
        const int64* words = which ? b : a;
        const int32 axes = which ? b_axes : a_axes, bytes = which ? b_bytes : a_bytes;
        for (int32 axis = 0; axis < axes; ++axis) {
            if (words[1 + axis] == 0) return true;
            int64 reach = (words[1 + axis] - 1) * words[1 + axes + axis] * bytes;
            (reach < 0 ? low : high)[which] += reach;
        }
    }
    return high[0] <= low[1] || high[1] <= low[0];
}

// Keeps the first failure; the others of a parallel loop come too late.
__attribute__((noinline, cold, unused)) static int32 fail(
    KwError* error, int32 kind, int32 line, int32 column, int32 argument, int32 axis, int64 index, int64 size) {
    if (__atomic_exchange_n(&error->set, 1, __ATOMIC_RELAXED) == 0) {
        error->kind = kind;
        error->line = line;
        error->column = column;
        error->argument = argument;
        error->axis = axis;
        error->index = index;
        error->size = size;
    }
    return 1;
}

}  // namespace py
