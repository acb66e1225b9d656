// What Python loops on a device stand on, after the language's own part: see python.hpp for the same on the CPU.
namespace py {

template <class T> struct Unsigned { typedef T type; };
template <> struct Unsigned<int8> { typedef uint8 type; };
template <> struct Unsigned<int16> { typedef uint16 type; };
template <> struct Unsigned<int32> { typedef uint32 type; };
template <> struct Unsigned<int64> { typedef uint64 type; };

template <class T> PY_INLINE T add(T a, T b) {
    typedef typename Unsigned<T>::type U;
    return T(U(a) + U(b));
}
template <class T> PY_INLINE T sub(T a, T b) {
    typedef typename Unsigned<T>::type U;
    return T(U(a) - U(b));
}
template <class T> PY_INLINE T mul(T a, T b) {
    typedef typename Unsigned<T>::type U;
    return T(U(a) * U(b));
}
template <class T> PY_INLINE T neg(T a) { return sub(T(0), a); }
template <class T> PY_INLINE T magnitude(T a) { return a < T(0) ? neg(a) : a; }

PY_INLINE int64 floored_div(int64 a, int64 b) {
    if (b == -1) return neg(a);
    int64 q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}
PY_INLINE int64 floored_mod(int64 a, int64 b) {
    if (b == -1) return 0;
    int64 r = a % b;
    return r + (r != 0 && ((r < 0) != (b < 0)) ? b : 0);
}
PY_INLINE uint64 floored_div(uint64 a, uint64 b) { return a / b; }
PY_INLINE uint64 floored_mod(uint64 a, uint64 b) { return a % b; }
template <class F> PY_INLINE F floored_mod_of(F a, F b) {
    F r = math::fmod(a, b);
    if (r == 0) return b < 0 ? -F(0) : F(0);
    return (r < 0) != (b < 0) ? r + b : r;
}
template <class F> PY_INLINE F floored_div_of(F a, F b) {
    if (b == 0) return a / b;
    F r = math::fmod(a, b);
    F q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    F whole = math::floor(q);
    return q - whole > F(0.5) ? whole + 1 : whole;
}
PY_INLINE float floored_mod(float a, float b) { return floored_mod_of(a, b); }
PY_INLINE float floored_div(float a, float b) { return floored_div_of(a, b); }
#ifndef __METAL_VERSION__
PY_INLINE double floored_mod(double a, double b) { return floored_mod_of(a, b); }
PY_INLINE double floored_div(double a, double b) { return floored_div_of(a, b); }
#endif

template <class T> PY_INLINE T shift_left(T a, T n) { return uint64(n) > 63 ? T(0) : T(uint64(a) << uint64(n)); }
PY_INLINE int64 shift_right(int64 a, int64 n) { return a >> (uint64(n) > 63 ? 63 : n); }
PY_INLINE uint64 shift_right(uint64 a, uint64 n) { return n > 63 ? 0 : a >> n; }

template <class T> PY_INLINE T power(T a, T n) {
    T result = 1;
    if (n < T(0)) return a == T(1) ? T(1) : (a == T(-1) ? (n & 1 ? T(-1) : T(1)) : T(0));
    for (; n; n >>= 1) {
        if (n & 1) result = mul(result, a);
        a = mul(a, a);
    }
    return result;
}
template <class T> PY_INLINE T maximum(T a, T b) { return a != a ? a : (a > b ? a : b); }
template <class T> PY_INLINE T minimum(T a, T b) { return a != a ? a : (a < b ? a : b); }
template <class T> PY_INLINE T sign(T x) { return x > T(0) ? T(1) : (x < T(0) ? T(-1) : (x == x ? T(0) : x)); }
template <class F> PY_INLINE F hypot(F a, F b) { return math::sqrt(a * a + b * b); }
// Kahan's: the error of 1 + x, or of exp(x), is undone.
template <class F> PY_INLINE F log1p(F x) {
    F u = F(1) + x;
    return u == F(1) ? x : math::log(u) * x / (u - F(1));
}
template <class F> PY_INLINE F expm1(F x) {
    F u = math::exp(x);
    if (u == F(1)) return x;
    F less = u - F(1);
    return less == F(-1) || u > F(1e30) ? less : less * x / math::log(u);
}
template <class F> PY_INLINE F cbrt(F x) { return math::copysign(math::pow(math::magnitude(x), F(1) / F(3)), x); }

template <class T, class F> PY_INLINE T whole(F x) {  // of what does not fit: the smallest number, as on the CPU
    const F limit = F(9223372036854775808.0f);
    return x >= -limit && x < limit ? T(int64(x)) : T(uint64(1) << 63);
}

// The sum over a group of 256 threads, for all of them, in an order that is fixed.
template <class T> PY_INLINE T group_sum(PY_SHARED T* sums, uint32 lane, T value) {
    sums[lane] = value;
    PY_BARRIER();
    for (uint32 half = 128; half > 0; half >>= 1) {
        if (lane < half) sums[lane] = sums[lane] + sums[lane + half];
        PY_BARRIER();
    }
    value = sums[0];
    PY_BARRIER();
    return value;
}

PY_INLINE bool outside(PY_THREAD int64& i, int64 size) {
    if (uint64(i) < uint64(size)) return false;
    if (i >= 0 || i + size < 0) return true;
    i += size;
    return false;
}

PY_INLINE int64 turns(int64 start, int64 stop, int64 step) {
    if (step > 0) return stop > start ? (stop - start + step - 1) / step : 0;
    return start > stop ? (start - stop - step - 1) / -step : 0;
}

}  // namespace py
