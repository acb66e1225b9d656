// Math for kernels: branch-free, so that loops of it vectorise; right for NaN, infinities and subnormals.
//
// Stands after kernelwright.hpp, which names the scalar types. float32 results are within 2 ulp of the exact value
// (tests/loops/test_math.py measures each function), and so are float64 ones, but for erf, which is libm's. Nothing here
// relies on fast-math: the one place where the order of additions is left to the compiler is `sum_step`, the step of a
// reduction.
//
// How to write more of it: no branches (a ternary becomes a blend), no conversion of a float that may be NaN to an
// integer, and sums of products in one expression, which clang contracts to fused operations.
namespace math {

#define KW_INLINE static inline __attribute__((always_inline))

KW_INLINE int bits_of(float x) { return __builtin_bit_cast(int, x); }
KW_INLINE float of_bits(int x) { return __builtin_bit_cast(float, x); }
KW_INLINE int shift_left(int x, int n) { return (int)((unsigned)x << n); }

constexpr float INF = __builtin_inff();
constexpr float LOG2_E = 1.44269504088896341f;
constexpr float LN2 = 0.693147180559945309f;
// ln 2 in two parts; the first has 9 bits free at its end, so that n * LN2_HIGH is exact without fused operations.
constexpr float LN2_HIGH = 0.693359375f;
constexpr float LN2_LOW = -2.12194440e-4f;
// Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits of the sum.
constexpr float ROUNDER = 12582912.0f;

// -- reductions ------------------------------------------------------------------------------------------------------

// The only additions whose order the compiler may choose: a loop of it keeps several partial sums.
KW_INLINE float sum_step(float total, float x) {
#pragma clang fp reassociate(on)
    return total + x;
}
KW_INLINE double sum_step(double total, double x) {
#pragma clang fp reassociate(on)
    return total + x;
}
KW_INLINE int64 sum_step(int64 total, int64 x) { return total + x; }

// Propagate NaN, as torch.amax does; these intrinsics vectorise as reductions where a comparison would not.
KW_INLINE float maximum_step(float best, float x) { return __builtin_elementwise_maximum(best, x); }
KW_INLINE double maximum_step(double best, double x) { return __builtin_elementwise_maximum(best, x); }
KW_INLINE float minimum_step(float best, float x) { return __builtin_elementwise_minimum(best, x); }
KW_INLINE double minimum_step(double best, double x) { return __builtin_elementwise_minimum(best, x); }
// Leaves NaN out, or not, as it comes: for maxima whose use brings the NaN back in, at a third of the cost.
KW_INLINE float largest_step(float best, float x) { return __builtin_elementwise_max(best, x); }
KW_INLINE double largest_step(double best, double x) { return __builtin_elementwise_max(best, x); }
KW_INLINE int64 maximum_step(int64 best, int64 x) { return x > best ? x : best; }
KW_INLINE int64 minimum_step(int64 best, int64 x) { return x < best ? x : best; }

// -- float32 ---------------------------------------------------------------------------------------------------------

// A clamp that lets NaN through.
KW_INLINE float clamped(float x, float low, float high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

// exp(x) = 2^n (1 + q), q = exp(r) - 1, |r| <= ln(2) / 2. The polynomials are minimax fits, below 4e-9.
// `shifted` has n in its low bits: shifted left by 23 they are n in the place of an exponent.
struct ExpParts {
    float q;
    float shifted;
};
KW_INLINE ExpParts exp_parts(float x) {
    float shifted = x * LOG2_E + ROUNDER;
    float n = shifted - ROUNDER;
    float r = x - n * LN2_HIGH;
    r = r - n * LN2_LOW;
    float p = 1.38142e-3f;
    p = p * r + 8.3689e-3f;
    p = p * r + 4.166841e-2f;
    p = p * r + 1.6666519e-1f;
    p = p * r + 4.9999993e-1f;
    p = p * r + 1.0f;
    return {p * r, shifted};
}
KW_INLINE int rounded(float shifted) { return (int)((unsigned)bits_of(shifted) - (unsigned)bits_of(ROUNDER)); }
KW_INLINE float power_of_two(int n) { return of_bits(shift_left(n + 127, 23)); }
// x 2^n, where that is a normal number. By the bits: a NaN does not survive it.
KW_INLINE float scaled(float x, int n) { return of_bits((int)((unsigned)bits_of(x) + ((unsigned)n << 23))); }

// Scales in two steps, so that results overflow to infinity and underflow through the subnormals by themselves.
KW_INLINE float exp_scaled(ExpParts e) {
    int n = rounded(e.shifted), half_n = n >> 1;
    return (e.q + 1.0f) * power_of_two(half_n) * power_of_two(n - half_n);
}
KW_INLINE float exp(float x) { return exp_scaled(exp_parts(clamped(x, -105.0f, 89.0f))); }

// exp of what is not positive, as a softmax needs it: results below the normal numbers are 0.
KW_INLINE float exp_falling(float x) {
    ExpParts e = exp_parts(x);
    float y = (e.q + 1.0f) * of_bits((int)(((unsigned)bits_of(e.shifted) << 23) + 0x3f800000u));
    return x < -87.3366f ? 0.0f : y;  // ln(2^-126) is -87.33654
}

// exp where neither x nor the result leaves the normal numbers: |x| < 87. Of a NaN it is anything.
KW_INLINE float exp_normal(float x) {
    ExpParts e = exp_parts(x);
    return scaled(e.q + 1.0f, bits_of(e.shifted));
}

// 2^x for |x| < 126; of a NaN it is anything. The polynomial is a minimax fit, 2e-9.
KW_INLINE float exp2_normal(float x) {
    float shifted = x + ROUNDER;
    float r = x - (shifted - ROUNDER);
    float p = 1.53530477e-4f;
    p = p * r + 1.33992625e-3f;
    p = p * r + 9.61844111e-3f;
    p = p * r + 5.55033154e-2f;
    p = p * r + 2.40226479e-1f;
    p = p * r + 6.93147203e-1f;
    p = p * r + 1.0f;
    return scaled(p, bits_of(shifted));
}

// 2^n (1 + q) - 1 = 2 (2^(n-1) q + (2^(n-1) - 1/2)): exact scaling, no cancellation beyond what expm1 itself has.
KW_INLINE float expm1(float x) {
    float c = clamped(x, -20.0f, 89.0f);
    ExpParts e = exp_parts(c);
    float scale = power_of_two(rounded(e.shifted) - 1);
    float y = 2.0f * (e.q * scale + (scale - 0.5f));
    return x == 0.0f ? x : y;
}

// ln(2^e m), m in [2/3, 4/3). Polynomial: N. Juffa's logf, max 0.9 ulp with fused operations.
KW_INLINE float log_normal(float x, float extra) {
    int e = (int)((unsigned)bits_of(x) - 0x3f2aaaabu) & (int)0xff800000;
    float m = of_bits((int)((unsigned)bits_of(x) - (unsigned)e)) - 1.0f;
    float i = (float)e * 1.19209290e-7f + extra;
    float s = m * m;
    float r = -0.130310059f;
    float t = 0.140869141f;
    r = r * s + -0.121483512f;
    t = t * s + 0.139814854f;
    r = r * s + -0.166846126f;
    t = t * s + 0.200120345f;
    r = r * s + -0.249996200f;
    r = t * m + r;
    r = r * m + 0.333331972f;
    r = r * m + -0.500000000f;
    r = r * s + m;
    return i * LN2 + r;
}
KW_INLINE float log_special(float x, float y) {
    y = x < INF ? y : x + x;             // infinity and NaN
    y = x < 0.0f ? __builtin_nanf("") : y;
    return x == 0.0f ? -INF : y;
}
KW_INLINE float log(float x) {
    bool tiny = x < 1.17549435e-38f;
    return log_special(x, log_normal(tiny ? x * 8388608.0f : x, tiny ? -23.0f : 0.0f));
}

// ln(u) of the rounded u = 1 + x, corrected by what the rounding lost.
KW_INLINE float log1p(float x) {
    float u = 1.0f + x;
    float lost = x - (u - 1.0f);
    float y = log_normal(u, 0.0f) + lost / u;
    y = log_special(u, y);
    return ((x < 1e-8f) & (x > -1e-8f)) ? x : y;
}

// Small arguments by Cephes' polynomial, others by 1 - 2 / (exp(2|x|) + 1).
KW_INLINE float tanh(float x) {
    float a = __builtin_fabsf(x);
    float s = x * x;
    float p = -5.70498872745e-3f;
    p = p * s + 2.06390887954e-2f;
    p = p * s + -5.37397155531e-2f;
    p = p * s + 1.33314422036e-1f;
    p = p * s + -3.33332819422e-1f;
    float small = x + x * (s * p);
    float large = 1.0f - 2.0f / (exp_normal(2.0f * (a > 20.0f ? 20.0f : a)) + 1.0f);
    return __builtin_copysignf(a > 0.625f ? large : small, x);
}

KW_INLINE float sigmoid(float x) {
    float a = -__builtin_fabsf(x);
    float z = exp_scaled(exp_parts(a < -105.0f ? -105.0f : a));
    return (x < 0.0f ? z : 1.0f) / (1.0f + z);
}

// N. Juffa's erff, its exponential in base 2: both branches are within 1 ulp.
KW_INLINE float erf(float x) {
    float t = __builtin_fabsf(x);
    float s = x * x;
    float r = -1.72853470e-5f * LOG2_E * t + 3.83197126e-4f * LOG2_E;
    float u = -3.88396438e-3f * LOG2_E * t + 2.42546219e-2f * LOG2_E;
    r = r * s + u;
    r = r * t + -1.06777877e-1f * LOG2_E;
    r = r * t + -6.34846687e-1f * LOG2_E;
    r = r * t + -1.28717512e-1f * LOG2_E;
    r = r * t + -LOG2_E * t;
    float large = __builtin_copysignf(1.0f - exp2_normal(r < -120.0f ? -120.0f : r), x);
    float p = -5.96761703e-4f;
    p = p * s + 4.99119423e-3f;
    p = p * s + -2.67681349e-2f;
    p = p * s + 1.12819925e-1f;
    p = p * s + -3.76125336e-1f;
    p = p * s + 1.28379166e-1f;
    float small = p * x + x;
    return t > 0.927734375f ? large : small;
}

// x times the normal distribution function: max(x, 0) - |x| Q(|x|). Of Q, the upper tail, the logarithm is so smooth
// that one polynomial serves: a minimax fit of log2 Q on [0, 5.6], weighted by sqrt(Q). Beyond 10 nothing is left of it.
// Of minus infinity it is NaN, as torch's own in either precision.
KW_INLINE float gelu(float x) {
    float t = __builtin_fabsf(x);
    t = t > 10.0f ? 10.0f : t;
    float p = 2.31122303e-7f;
    p = p * t + -5.25036318e-6f;
    p = p * t + 4.80843918e-5f;
    p = p * t + -1.96015611e-4f;
    p = p * t + -1.49580832e-4f;
    p = p * t + 7.10549107e-3f;
    p = p * t + -5.25343095e-2f;
    p = p * t + -4.59194744e-1f;
    p = p * t + -1.15110664f;
    p = p * t + -1.0f;
    return (x < 0.0f ? x * 0.0f : x) - t * exp2_normal(p);
}

KW_INLINE float sqrt(float x) { return __builtin_elementwise_sqrt(x); }
KW_INLINE float rsqrt(float x) { return 1.0f / __builtin_elementwise_sqrt(x); }
KW_INLINE float abs(float x) { return __builtin_fabsf(x); }
KW_INLINE float floor(float x) { return __builtin_elementwise_floor(x); }
KW_INLINE float ceil(float x) { return __builtin_elementwise_ceil(x); }
KW_INLINE float trunc(float x) { return __builtin_elementwise_trunc(x); }
KW_INLINE float round(float x) { return __builtin_elementwise_roundeven(x); }
KW_INLINE float fma(float a, float b, float c) { return __builtin_elementwise_fma(a, b, c); }

// -- float64 ---------------------------------------------------------------------------------------------------------

KW_INLINE int64 bits_of(double x) { return __builtin_bit_cast(int64, x); }
KW_INLINE double of_bits(int64 x) { return __builtin_bit_cast(double, x); }
KW_INLINE int64 shift_left(int64 x, int n) { return (int64)((uint64)x << n); }
KW_INLINE double clamped(double x, double low, double high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

constexpr double INF_64 = __builtin_inf();
// ln 2 in two parts; the first has 21 bits free at its end, so that n times it is exact without fused operations.
constexpr double LN2_HIGH_64 = 6.93147180369123816490e-01;
constexpr double LN2_LOW_64 = 1.90821492927058770002e-10;
// Adding 1.5 * 2^52 rounds to an integer, which then stands in the low bits of the sum.
constexpr double ROUNDER_64 = 6755399441055744.0;

// exp(x) = 2^n (1 + q) as in float32; of the series for exp(r) - 1 what is left out is below 5e-18.
struct ExpParts64 {
    double q;
    double n;
};
KW_INLINE ExpParts64 exp_parts(double x) {
    double n = x * 1.44269504088896340736 + ROUNDER_64;
    n = n - ROUNDER_64;
    double r = x - n * LN2_HIGH_64;
    r = r - n * LN2_LOW_64;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    return {r * r * p + r, n};
}
// For whole n from -1022 to 1023. Of a NaN it is anything.
KW_INLINE double power_of_two(double n) {
    return of_bits((int64)((uint64)shift_left(bits_of(n + ROUNDER_64), 52) + 0x3ff0000000000000u));
}
// In two steps, so that results overflow to infinity and underflow through the subnormals by themselves.
KW_INLINE double exp_scaled(ExpParts64 e) {
    double most = clamped(e.n, -1000.0, 1000.0);
    return (e.q + 1.0) * power_of_two(most) * power_of_two(e.n - most);
}
KW_INLINE double exp(double x) { return exp_scaled(exp_parts(clamped(x, -746.0, 710.0))); }
KW_INLINE double exp_falling(double x) {
    ExpParts64 e = exp_parts(x < -708.3965 ? -708.3965 : x);
    double y = (e.q + 1.0) * power_of_two(e.n);
    return x < -708.3965 ? 0.0 : y;  // ln(2^-1022) is -708.39642
}
KW_INLINE double expm1(double x) {
    ExpParts64 e = exp_parts(clamped(x, -40.0, 710.0));
    double scale = power_of_two(e.n - 1.0);
    double y = 2.0 * (e.q * scale + (scale - 0.5));
    return x == 0.0 ? x : y;
}

// ln(2^e m), m in [sqrt(1/2), sqrt(2)): the series of 2 atanh(f / (2 + f)), f = m - 1, with fdlibm's coefficients.
KW_INLINE double log_normal(double x, double extra) {
    // The exponent with the bias of 1023, as the low bits of 2^52 + it.
    uint64 shifted = (uint64)bits_of(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double e = of_bits((int64)((shifted >> 52) | 0x4330000000000000u)) - (4503599627370496.0 + 1023.0) + extra;
    double f = of_bits((int64)((shifted & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu)) - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double r = 1.479819860511658591e-01;
    r = r * z + 1.531383769920937332e-01;
    r = r * z + 1.818357216161805012e-01;
    r = r * z + 2.222219843214978396e-01;
    r = r * z + 2.857142874366239149e-01;
    r = r * z + 3.999999999940941908e-01;
    r = r * z + 6.666666666666735130e-01;
    double half = 0.5 * f * f;
    return e * LN2_HIGH_64 - ((half - (s * (half + r * z) + e * LN2_LOW_64)) - f);
}
KW_INLINE double log_special(double x, double y) {
    y = x < INF_64 ? y : x + x;
    y = x < 0.0 ? __builtin_nan("") : y;
    return x == 0.0 ? -INF_64 : y;
}
KW_INLINE double log(double x) {
    bool tiny = x < 2.2250738585072014e-308;
    return log_special(x, log_normal(tiny ? x * 18014398509481984.0 : x, tiny ? -54.0 : 0.0));
}
KW_INLINE double log1p(double x) {
    double u = 1.0 + x;
    double lost = x - (u - 1.0);
    double y = log_special(u, log_normal(u, 0.0) + lost / u);
    return ((x < 1e-17) & (x > -1e-17)) ? x : y;
}

// By t = expm1(2|x|): 1 - 2 / (t + 2), or of small arguments, with -2|x| in its place, -t / (t + 2).
KW_INLINE double tanh(double x) {
    double a = __builtin_fabs(x);
    bool large = a >= 1.0;
    double t = expm1((large ? 2.0 : -2.0) * (a > 22.0 ? 22.0 : a));
    double y = (large ? 2.0 : -t) / (t + 2.0);
    return __builtin_copysign(large ? 1.0 - y : y, x);
}
KW_INLINE double erf(double x) { return __builtin_erf(x); }
KW_INLINE double sigmoid(double x) {
    double a = -__builtin_fabs(x);
    double z = exp_scaled(exp_parts(a < -746.0 ? -746.0 : a));
    return (x < 0.0 ? z : 1.0) / (1.0 + z);
}
KW_INLINE double gelu(double x) { return x * 0.5 * (1.0 + __builtin_erf(x * 0.70710678118654752440)); }
KW_INLINE double sqrt(double x) { return __builtin_elementwise_sqrt(x); }
KW_INLINE double rsqrt(double x) { return 1.0 / __builtin_elementwise_sqrt(x); }
KW_INLINE double abs(double x) { return __builtin_fabs(x); }
KW_INLINE double floor(double x) { return __builtin_elementwise_floor(x); }
KW_INLINE double ceil(double x) { return __builtin_elementwise_ceil(x); }
KW_INLINE double trunc(double x) { return __builtin_elementwise_trunc(x); }
KW_INLINE double round(double x) { return __builtin_elementwise_roundeven(x); }
KW_INLINE double fma(double a, double b, double c) { return __builtin_elementwise_fma(a, b, c); }

// -- any type ------------------------------------------------------------------------------------------------------------

KW_INLINE int64 abs(int64 x) { return x < 0 ? -x : x; }
KW_INLINE int32 abs(int32 x) { return x < 0 ? -x : x; }

// As torch.maximum and torch.minimum: NaN wins, whichever side it stands on.
template <class T> KW_INLINE T maximum(T a, T b) { return a != a ? a : (a > b ? a : b); }
template <class T> KW_INLINE T minimum(T a, T b) { return a != a ? a : (a < b ? a : b); }
// 1, 0 or -1, and NaN for NaN.
template <class T> KW_INLINE T sign(T x) { return x > T(0) ? T(1) : (x < T(0) ? T(-1) : (x == x ? T(0) : x)); }

#undef KW_INLINE

}  // namespace math
