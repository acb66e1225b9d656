// Float64 where there is none: the sum of two floats of which the first is the sum rounded to a float. That is 48 bits,
// in float's range; of an infinity or NaN the second is 0.
//
// Dekker (1971) and, for the error of a sum, Knuth (The Art of Computer Programming, volume 2, 4.2.2). Bounds are those of
// Joldes, Muller and Popescu (Tight and rigorous error bounds for basic building blocks of double-word arithmetic, 2017),
// relative, with u = 2^-24: u^2 is 3.6e-15.
//
// They hold only where nothing is reassociated. Contraction is harmless: a product whose error matters is made by fma,
// and 0 is added to it, which leaves nothing to contract.
#pragma METAL fp math_mode(safe)

struct df64 {
    float hi, lo;
};

namespace py {

// s + e, where e is at most as large as s, or both are sums of the kind that this returns. Of an e of 0, s as it is: it
// may be -0.
PY_INLINE df64 fast_sum(float s, float e) {
    float hi = e == 0 ? s : s + e;
    if (!metal::isfinite(hi)) return df64{metal::isfinite(s) ? hi : s, 0};
    return df64{hi, e - (hi - s)};
}
// a + b and its error, exactly.
PY_INLINE df64 two_sum(float a, float b) {
    float s = a + b, part = s - a;
    return df64{s, (a - (s - part)) + (b - part)};
}
// a * b and its error, exactly.
PY_INLINE df64 two_product(float a, float b) {
    float p = metal::fma(a, b, 0.0f);
    return df64{p == 0 ? a * b : p, metal::fma(a, b, -p)};
}

PY_INLINE df64 pair(float x) { return df64{x, 0}; }
// Exact up to 48 bits; beyond, the last of the 64 are rounded.
PY_INLINE df64 pair(uint64 n) {
    df64 high = two_sum(float(n >> 40) * 1099511627776.0f, float((n >> 16) & 0xffffff) * 65536.0f);
    df64 low = two_sum(high.hi, float(n & 0xffff));
    return fast_sum(low.hi, high.lo + low.lo);
}
PY_INLINE df64 pair(int64 n) {
    df64 size = pair(n < 0 ? uint64(0) - uint64(n) : uint64(n));
    return n < 0 ? df64{-size.hi, -size.lo} : size;
}

}  // namespace py

PY_INLINE df64 operator-(df64 a) { return df64{-a.hi, -a.lo}; }
// 3 u^2.
PY_INLINE df64 operator+(df64 a, df64 b) {
    df64 high = py::two_sum(a.hi, b.hi), low = py::two_sum(a.lo, b.lo);
    df64 sum = py::fast_sum(high.hi, high.lo + low.hi);
    return py::fast_sum(sum.hi, low.lo + sum.lo);
}
PY_INLINE df64 operator-(df64 a, df64 b) { return a + -b; }
// 4 u^2.
PY_INLINE df64 operator*(df64 a, df64 b) {
    df64 high = py::two_product(a.hi, b.hi);
    float rest = metal::fma(a.lo, b.hi, metal::fma(a.hi, b.lo, a.lo * b.lo));
    return py::fast_sum(high.hi, high.lo + rest);
}
// 15 u^2, with fewer roundings than what that was shown of: what a quotient of floats leaves over is a float.
PY_INLINE df64 operator/(df64 a, df64 b) {
    float q = a.hi / b.hi;
    if (!metal::isfinite(q) || !metal::isfinite(b.hi)) return df64{q, 0};
    float left = metal::fma(-q, b.hi, a.hi) + metal::fma(-q, b.lo, a.lo);
    return py::fast_sum(q, left / b.hi);
}

PY_INLINE bool operator==(df64 a, df64 b) { return a.hi == b.hi && a.lo == b.lo; }
PY_INLINE bool operator!=(df64 a, df64 b) { return !(a == b); }
PY_INLINE bool operator<(df64 a, df64 b) { return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo); }
PY_INLINE bool operator<=(df64 a, df64 b) { return a.hi < b.hi || (a.hi == b.hi && a.lo <= b.lo); }
PY_INLINE bool operator>(df64 a, df64 b) { return b < a; }
PY_INLINE bool operator>=(df64 a, df64 b) { return b <= a; }

namespace math {

PY_INLINE bool isnan(df64 x) { return metal::isnan(x.hi); }
PY_INLINE bool isinf(df64 x) { return metal::isinf(x.hi); }
PY_INLINE bool isfinite(df64 x) { return metal::isfinite(x.hi); }
PY_INLINE df64 magnitude(df64 x) { return metal::signbit(x.hi) ? -x : x; }
PY_INLINE df64 copysign(df64 x, df64 y) { return metal::signbit(x.hi) == metal::signbit(y.hi) ? x : -x; }

PY_INLINE df64 floor(df64 x) {
    float whole = metal::floor(x.hi);
    return whole == x.hi ? py::fast_sum(whole, metal::floor(x.lo)) : df64{whole, 0};
}
PY_INLINE df64 ceil(df64 x) { return -floor(-x); }
PY_INLINE df64 trunc(df64 x) { return metal::signbit(x.hi) ? ceil(x) : floor(x); }
PY_INLINE df64 round(df64 x) {  // halves to even
    df64 below = floor(x), rest = x - below, half = df64{0.5f, 0};
    bool odd = floor(below * half) != below * half;
    return copysign(rest > half || (rest == half && odd) ? below + df64{1, 0} : below, x);
}

// 25/8 u^2: Lefevre, Louvet, Muller, Picot and Rideau (Accurate calculation of Euclidean norms using double-word
// arithmetic, 2023).
PY_INLINE df64 sqrt(df64 x) {
    float root = math::sqrt(x.hi);
    if (root == 0 || !metal::isfinite(root)) return df64{root, 0};
    return py::fast_sum(root, (metal::fma(-root, root, x.hi) + x.lo) / (2 * root));
}

// x * 2^n for n from -252 to 254, in two steps.
PY_INLINE df64 scaled(df64 x, int32 n) {
    float first = as_type<float>((n / 2 + 127) << 23), second = as_type<float>((n - n / 2 + 127) << 23);
    return py::fast_sum(x.hi * first * second, x.lo * first * second);
}
// n * ln 2, which is three floats of which two have so few bits that a product with them is one.
PY_INLINE df64 times_ln2(float n) {
    df64 high = py::two_sum(n * 0.693145751953125f, n * 1.4284159988164902e-6f);
    return high + df64{n * 1.908215e-10f, 0};
}
// By the series for what is left over whole powers of 2; terms that are small beside the sum are floats.
PY_INLINE df64 exp(df64 x) {
    if (!(metal::fabs(x.hi) < 104)) return df64{x.hi > 0 ? INFINITY : (x.hi < 0 ? 0 : x.hi), 0};
    float n = metal::rint(x.hi * 1.442695f);
    df64 r = ((x - df64{n * 0.693145751953125f, 0}) - df64{n * 1.4284159988164902e-6f, 0}) - df64{n * 1.908215e-10f, 0};
    float t = r.hi;
    float rest = 2.4801588e-5f + t * (2.7557319e-6f + t * (2.755732e-7f + t * (2.5052108e-8f + t * 2.0876756e-9f)));
    df64 sum = df64{rest, 0} * r + df64{1.984127e-4f, -2.7255969e-12f};
    sum = sum * r + df64{1.3888889e-3f, -3.3631094e-11f};
    sum = sum * r + df64{8.333334e-3f, -4.346172e-10f};
    sum = sum * r + df64{4.1666668e-2f, -1.2417635e-9f};
    sum = sum * r + df64{1.6666667e-1f, -4.967054e-9f};
    sum = sum * r + df64{0.5f, 0};
    sum = sum * r + df64{1, 0};
    return scaled(sum * r + df64{1, 0}, int32(n));
}
// 2 atanh((m - 1) / (m + 1)) + n ln 2, of x = m * 2^n.
PY_INLINE df64 log(df64 x) {
    if (!(x.hi > 0) || !metal::isfinite(x.hi)) return df64{x.hi == 0 ? -INFINITY : (x.hi < 0 ? NAN : x.hi), 0};
    int32 n = 0;
    if (x.hi < 0x1p-100f) x = scaled(x, 100), n = -100;
    int32 power = (as_type<int32>(x.hi) >> 23) - 127;
    x = scaled(x, -power);
    n += power;
    if (x.hi > 1.4142135f) x = df64{x.hi * 0.5f, x.lo * 0.5f}, n += 1;
    df64 s = (x - df64{1, 0}) / (x + df64{1, 0}), z = s * s;
    float t = z.hi;
    float rest = 1.0f / 11 + t * (1.0f / 13 + t * (1.0f / 15 + t * (1.0f / 17 + t * (1.0f / 19 + t * (1.0f / 21)))));
    df64 sum = df64{rest, 0} * z + df64{1.1111111e-1f, -8.278423e-10f};
    sum = sum * z + df64{1.4285715e-1f, -6.386212e-9f};
    sum = sum * z + df64{0.2f, -2.9802323e-9f};
    sum = sum * z + df64{3.3333334e-1f, -9.934108e-9f};
    sum = s + s * (z * sum);
    return times_ln2(float(n)) + (sum + sum);
}

// By long division, 24 bits of the quotient at a time, so that the error is small beside y.
PY_INLINE df64 fmod(df64 x, df64 y) {
    if (!metal::isfinite(x.hi) || y.hi == 0) return df64{NAN, 0};
    if (!metal::isfinite(y.hi)) return metal::isnan(y.hi) ? y : x;
    df64 left = magnitude(x), by = magnitude(y), none = df64{0, 0};
    while (magnitude(left) >= by) {
        df64 step = by;
        while (metal::fabs(left.hi / step.hi) > 0x1p60f) step = df64{step.hi * 0x1p60f, step.lo * 0x1p60f};
        float q = metal::trunc(left.hi / step.hi);
        if (q == 0) q = metal::copysign(1.0f, left.hi);
        left = (left - py::two_product(q, step.hi)) - py::two_product(q, step.lo);
    }
    return copysign(left < none ? left + by : left, x);
}

}  // namespace math

namespace py {

PY_INLINE df64 sign(df64 x) { return x.hi > 0 ? df64{1, 0} : (x.hi < 0 ? df64{-1, 0} : (x.hi == 0 ? df64{0, 0} : x)); }
PY_INLINE df64 floored_mod(df64 a, df64 b) {
    df64 r = math::fmod(a, b);
    if (r.hi == 0) return math::copysign(df64{0, 0}, b);
    return (r.hi < 0) != (b.hi < 0) ? r + b : r;
}
PY_INLINE df64 floored_div(df64 a, df64 b) {
    if (b.hi == 0) return a / b;
    df64 r = math::fmod(a, b), q = (a - r) / b;
    if (r.hi != 0 && (r.hi < 0) != (b.hi < 0)) q = q - df64{1, 0};
    df64 below = math::floor(q);
    return q - below > df64{0.5f, 0} ? below + df64{1, 0} : below;
}
// Of what does not fit: the smallest number, as on the CPU.
template <class T> PY_INLINE T whole(df64 x) {
    const df64 limit = df64{9223372036854775808.0f, 0};
    if (!(x >= -limit && x < limit)) return T(uint64(1) << 63);
    x = math::trunc(x);
    uint64 high = x.hi == limit.hi ? uint64(1) << 63 : uint64(int64(x.hi));
    return T(int64(high + uint64(int64(x.lo))));
}

}  // namespace py
