// Kernels in Metal Shading Language: what math.hpp gives them in C++, after metal.hpp and device.hpp.
typedef bfloat bfloat16;

namespace math {

using py::maximum;
using py::minimum;
using py::sign;
using py::log1p;
using py::expm1;

PY_INLINE float abs(float x) { return metal::fabs(x); }
template <class T> PY_INLINE T abs(T x) { return py::magnitude(x); }
PY_INLINE float exp_falling(float x) { return math::exp(x); }
PY_INLINE float sigmoid(float x) {
    float z = math::exp(-metal::fabs(x));
    return (x < 0.0f ? z : 1.0f) / (1.0f + z);
}

// N. Juffa's erff, its exponential in base 2: Metal has none.
PY_INLINE float erf(float x) {
    const float log2_e = 1.44269504088896341f;
    float t = metal::fabs(x);
    float s = x * x;
    float r = -1.72853470e-5f * log2_e * t + 3.83197126e-4f * log2_e;
    float u = -3.88396438e-3f * log2_e * t + 2.42546219e-2f * log2_e;
    r = r * s + u;
    r = r * t + -1.06777877e-1f * log2_e;
    r = r * t + -6.34846687e-1f * log2_e;
    r = r * t + -1.28717512e-1f * log2_e;
    r = r * t + -log2_e * t;
    float large = metal::copysign(1.0f - math::exp2(r < -120.0f ? -120.0f : r), x);
    float p = -5.96761703e-4f;
    p = p * s + 4.99119423e-3f;
    p = p * s + -2.67681349e-2f;
    p = p * s + 1.12819925e-1f;
    p = p * s + -3.76125336e-1f;
    p = p * s + 1.28379166e-1f;
    float small = p * x + x;
    return t > 0.927734375f ? large : small;
}

// As in math.hpp: max(x, 0) - |x| Q(|x|), of which log2 Q is a polynomial.
PY_INLINE float gelu(float x) {
    float t = metal::fabs(x);
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
    return (x < 0.0f ? x * 0.0f : x) - t * math::exp2(p);
}

template <class T> PY_INLINE T sum_step(T total, T x) { return total + x; }
template <class T> PY_INLINE T maximum_step(T best, T x) { return py::maximum(best, x); }
template <class T> PY_INLINE T minimum_step(T best, T x) { return py::minimum(best, x); }
template <class T> PY_INLINE T largest_step(T best, T x) { return x > best ? x : best; }

}  // namespace math
