// Python loops in CUDA.
typedef signed char int8;
typedef short int16;
typedef int int32;
typedef long long int64;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;

#define PY_INLINE static __device__ __forceinline__
#define PY_THREAD
#define PY_SHARED
#define PY_BARRIER() __syncthreads()

namespace math {

#define PY_CUDA1(name)                                     \
    PY_INLINE float name(float x) { return ::name##f(x); } \
    PY_INLINE double name(double x) { return ::name(x); }
#define PY_CUDA2(name)                                                 \
    PY_INLINE float name(float x, float y) { return ::name##f(x, y); } \
    PY_INLINE double name(double x, double y) { return ::name(x, y); }
PY_CUDA1(exp) PY_CUDA1(exp2) PY_CUDA1(log) PY_CUDA1(log2) PY_CUDA1(log10) PY_CUDA1(sqrt) PY_CUDA1(rsqrt)
PY_CUDA1(sin) PY_CUDA1(cos) PY_CUDA1(tan) PY_CUDA1(asin) PY_CUDA1(acos) PY_CUDA1(atan)
PY_CUDA1(sinh) PY_CUDA1(cosh) PY_CUDA1(tanh) PY_CUDA1(asinh) PY_CUDA1(acosh) PY_CUDA1(atanh)
PY_CUDA1(floor) PY_CUDA1(ceil) PY_CUDA1(trunc) PY_CUDA1(erf) PY_CUDA1(erfc) PY_CUDA1(lgamma)
PY_CUDA2(atan2) PY_CUDA2(pow) PY_CUDA2(fmod) PY_CUDA2(copysign)
PY_INLINE float gamma(float x) { return ::tgammaf(x); }
PY_INLINE double gamma(double x) { return ::tgamma(x); }
PY_INLINE float round(float x) { return ::rintf(x); }
PY_INLINE double round(double x) { return ::rint(x); }
PY_INLINE float magnitude(float x) { return ::fabsf(x); }
PY_INLINE double magnitude(double x) { return ::fabs(x); }
template <class F> PY_INLINE bool isnan(F x) { return x != x; }
template <class F> PY_INLINE bool isfinite(F x) { return x - x == 0; }
template <class F> PY_INLINE bool isinf(F x) { return x == x && x - x != 0; }

}  // namespace math

namespace py {

template <class T> PY_INLINE void accumulate(T* place, T x) { atomicAdd(place, x); }
PY_INLINE void accumulate(int64* place, int64 x) { atomicAdd((uint64*)place, (uint64)x); }

// An array whose elements lie `step` apart.
template <class T> struct Strided {
    T* first;
    int64 step;
    __device__ __forceinline__ T& operator[](int64 i) const { return first[i * step]; }
};
template <class T> struct Plain { typedef T type; };
template <class T> struct Plain<const T> { typedef T type; };

// A thread's own array, beside those of its group of N. One element more than N between two of its elements: so neither
// filling nor reading makes threads wait for a bank of the memory.
template <class T, int N> struct Own {
    T* first;
    __device__ __forceinline__ T& operator[](int64 i) const { return first[i * (N + 1)]; }
};
template <int N> PY_INLINE uint32 filled(uint32 own, int64 items) {
    const int64 left = items - int64(blockIdx.x) * N;
    return own * (uint32)(left < N ? left : N);
}
// Of `each` elements, in `room`, filled from `memory`, where the items' arrays lie one after the other.
template <int N, class T> PY_INLINE T* stage(T* memory, int64 each, int64 items, char*& room) {
    typename Plain<T>::type* held = (typename Plain<T>::type*)room;
    const uint32 own = (uint32)each, count = filled<N>(own, items);
    const T* from = memory + int64(blockIdx.x) * N * each;
    for (uint32 e = threadIdx.x; e < count; e += N) held[e % own * (N + 1) + e / own] = from[e];
    room += (own * (N + 1) * (uint32)sizeof(T) + 15) / 16 * 16;
    return held;
}
template <int N, class T> PY_INLINE void bring_back(const T* held, T* memory, int64 each, int64 items) {
    const uint32 own = (uint32)each, count = filled<N>(own, items);
    T* to = memory + int64(blockIdx.x) * N * each;
    for (uint32 e = threadIdx.x; e < count; e += N) to[e] = held[e % own * (N + 1) + e / own];
}

// An item's array of `each` elements in `room`, filled by the group's threads, and back.
template <class T> PY_INLINE T* fetch(T* memory, int64 each, int64 item, char*& room) {
    typename Plain<T>::type* held = (typename Plain<T>::type*)room;
    for (uint32 e = threadIdx.x; e < (uint32)each; e += blockDim.x) held[e] = memory[item * each + e];
    room += ((uint32)each * (uint32)sizeof(T) + 15) / 16 * 16;
    return held;
}
template <class T> PY_INLINE void put_back(const T* held, T* memory, int64 each, int64 item) {
    for (uint32 e = threadIdx.x; e < (uint32)each; e += blockDim.x) memory[item * each + e] = held[e];
}

// Empty bins in `room`, as many copies of them as the launch made room for: threads that are neighbours add to other ones.
template <class T> PY_INLINE Strided<T> bins(T*, int64 size, char* room) {
    uint32 bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    const uint32 copies = bytes / (uint32)(size * sizeof(T));
    T* all = (T*)room;
    for (uint32 i = threadIdx.x; i < copies * (uint32)size; i += blockDim.x) all[i] = T(0);
    return Strided<T>{all + threadIdx.x % copies, copies};
}
template <class T> PY_INLINE void add_up(Strided<T> bins, T* memory, int64 size) {
    const T* all = bins.first - threadIdx.x % bins.step;
    for (int64 i = threadIdx.x; i < size; i += blockDim.x) {
        T sum = 0;
        for (int64 copy = 0; copy < bins.step; copy++) sum += all[i * bins.step + copy];
        if (sum != T(0)) accumulate(memory + i, sum);
    }
}

// Keeps the first failure: the words of KwError.
static __device__ __noinline__ void fail(
    int32* error, int32 kind, int32 line, int32 column, int32 argument, int32 axis, int64 index, int64 size) {
    if (atomicExch(error + 5, 1)) return;
    error[0] = kind;
    error[1] = line;
    error[2] = column;
    error[3] = argument;
    error[4] = axis;
    ((int64*)error)[3] = index;
    ((int64*)error)[4] = size;
}

}  // namespace py
