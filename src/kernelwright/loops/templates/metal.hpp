// Python loops in Metal Shading Language.
#include <metal_stdlib>

typedef char int8;
typedef short int16;
typedef int int32;
typedef long int64;
typedef uchar uint8;
typedef ushort uint16;
typedef uint uint32;
typedef ulong uint64;

#define PY_INLINE static inline
#define PY_THREAD thread
#define PY_SHARED threadgroup
#define PY_BARRIER() metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup)

namespace math {

#define PY_METAL1(name) \
    PY_INLINE float name(float x) { return metal::precise::name(x); }
PY_METAL1(exp) PY_METAL1(exp2) PY_METAL1(log) PY_METAL1(log2) PY_METAL1(log10) PY_METAL1(sqrt) PY_METAL1(rsqrt)
PY_METAL1(sin) PY_METAL1(cos) PY_METAL1(tan) PY_METAL1(asin) PY_METAL1(acos) PY_METAL1(atan)
PY_METAL1(sinh) PY_METAL1(cosh) PY_METAL1(tanh) PY_METAL1(asinh) PY_METAL1(acosh) PY_METAL1(atanh)
PY_METAL1(floor) PY_METAL1(ceil) PY_METAL1(trunc)
PY_INLINE float round(float x) { return metal::rint(x); }
PY_INLINE float magnitude(float x) { return metal::fabs(x); }
PY_INLINE float atan2(float y, float x) { return metal::precise::atan2(y, x); }
PY_INLINE float pow(float x, float y) { return metal::precise::pow(x, y); }
PY_INLINE float fmod(float x, float y) { return metal::precise::fmod(x, y); }
PY_INLINE float copysign(float x, float y) { return metal::copysign(x, y); }
PY_INLINE bool isnan(float x) { return metal::isnan(x); }
PY_INLINE bool isinf(float x) { return metal::isinf(x); }
PY_INLINE bool isfinite(float x) { return metal::isfinite(x); }

}  // namespace math

namespace py {

PY_INLINE void accumulate(device float* place, float x) {
    metal::atomic_fetch_add_explicit((device metal::atomic<float>*)place, x, metal::memory_order_relaxed);
}
PY_INLINE void accumulate(device int* place, int x) {
    metal::atomic_fetch_add_explicit((device metal::atomic_int*)place, x, metal::memory_order_relaxed);
}
PY_INLINE void accumulate(device uint* place, uint x) {
    metal::atomic_fetch_add_explicit((device metal::atomic_uint*)place, x, metal::memory_order_relaxed);
}

// Keeps the first failure: the words of KwError.
static void fail(
    device int32* error, int32 kind, int32 line, int32 column, int32 argument, int32 axis, int64 index, int64 size) {
    if (metal::atomic_exchange_explicit((device metal::atomic_int*)(error + 5), 1, metal::memory_order_relaxed)) return;
    error[0] = kind;
    error[1] = line;
    error[2] = column;
    error[3] = argument;
    error[4] = axis;
    ((device int64*)error)[3] = index;
    ((device int64*)error)[4] = size;
}

}  // namespace py
