// The prelude of every C++ kernel. Freestanding: no header of the system is read.
//
//   kernel void scale(float* out, const float* x, int64 n, float factor) {
//       parallel_for(n, 16384, [&](int64 begin, int64 end) {
//           for (int64 i = begin; i < end; i++) out[i] = x[i] * factor;
//       });
//   }

typedef __INT8_TYPE__ int8;
typedef __INT16_TYPE__ int16;
typedef __INT32_TYPE__ int32;
typedef __INT64_TYPE__ int64;
typedef __UINT8_TYPE__ uint8;
typedef __UINT16_TYPE__ uint16;
typedef __UINT32_TYPE__ uint32;
typedef __UINT64_TYPE__ uint64;

typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;

// A kernel has C linkage, so that its entry, which is generated before it, can name it.
#define kernel extern "C"

// bfloat16 and half are storage: arithmetic is done in float.
struct bfloat16 {
    uint16 bits;

    bfloat16() = default;
    bfloat16(float value) {
        uint32 word = __builtin_bit_cast(uint32, value);
        uint32 rounded = (word + 0x7fff + ((word >> 16) & 1)) >> 16;  // to nearest, ties to even
        bits = value != value ? uint16(0x7fc0) : uint16(rounded);
    }
    operator float() const { return __builtin_bit_cast(float, uint32(bits) << 16); }
};

struct half {
    uint16 bits;

    half() = default;
#if defined(__F16C__) || defined(__aarch64__)
    half(float value) : bits(__builtin_bit_cast(uint16, (_Float16)value)) {}
    operator float() const { return (float)__builtin_bit_cast(_Float16, bits); }
#else
    // Without F16C the compiler would call a library that a freestanding kernel is not linked with.
    half(float value) {
        uint32 word = __builtin_bit_cast(uint32, value);
        uint32 sign = (word >> 16) & 0x8000, magnitude = word & 0x7fffffff;
        if (magnitude > 0x7f800000) {
            bits = uint16(sign | 0x7e00);
        } else if (magnitude >= 0x477ff000) {  // 65520, the first that rounds to infinity
            bits = uint16(sign | 0x7c00);
        } else if (magnitude < 0x38800000) {  // subnormal: adding 0.5 aligns and rounds the significand
            float aligned = __builtin_bit_cast(float, magnitude) + 0.5f;
            bits = uint16(sign | (__builtin_bit_cast(uint32, aligned) - 0x3f000000));
        } else {
            uint32 rebiased = magnitude - (112u << 23);
            bits = uint16(sign | ((rebiased + 0xfff + ((rebiased >> 13) & 1)) >> 13));
        }
    }
    operator float() const {
        uint32 sign = uint32(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
        if (magnitude >= 0x7c00) return __builtin_bit_cast(float, sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
        float scaled = __builtin_bit_cast(float, magnitude << 13) * 0x1p112f;
        return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32, scaled));
    }
#endif
};

namespace kernelwright {

// What the loader found in this process, by address; zero means not found. One table serves all kernels of a
// process and is filled in further when torch or NumPy arrive. The order is that of entry/table.py.
struct Runtime {
    // threads
    void (*gomp_parallel)(void (*body)(void*), void* data, uint32 threads, uint32 flags);
    int (*omp_get_thread_num)();
    int (*omp_get_num_threads)();
    int (*omp_get_max_threads)();
    int (*torch_get_num_threads)();
    void (*kmpc_fork_call)(void* where, int32 count, void (*body)(int32*, int32*, void*), ...);
    void (*kmpc_push_num_threads)(void* where, int32 thread, int32 threads);
    int32 (*kmpc_global_thread_num)(void* where);
    // Python
    void* (*save_thread)();
    void (*restore_thread)(void* state);
    void (*add_reference)(void* object);
    void (*drop_reference)(void* object);
    void* (*call)(void* callable, void* const* arguments, uint64 count, void* keywords);
    int64 (*as_int64)(void* object, int* overflow);
    double (*as_double)(void* object);
    void* (*from_int64)(int64 value);
    void* (*from_uint64)(uint64 value);
    void* (*from_double)(double value);
    void* (*new_tuple)(int64 size);
    int (*set_item)(void* tuple, int64 index, void* item);
    char* (*bytes_of)(void* bytearray);
    void* none;
    void* true_object;
    void* false_object;
    void* int_type;
    void* float_type;
    // NumPy
    void* array_type;
    void* array_dtypes[13];
    // torch
    void* tensor_type;
    void* parameter_type;
    int64 tensor_offset;
    int64 keys_offset;
    uint64 keys_required;
    uint64 keys_allowed;
    int64 tensor_dtypes[13];
    int32 (*get_dtype)(void* tensor, int32* dtype);
    int32 (*is_contiguous)(void* tensor, bool* contiguous);
    int32 (*get_numel)(void* tensor, int64* numel);
    int32 (*get_data)(void* tensor, void** data);
    int32 (*get_dim)(void* tensor, int64* dimensions);
    int32 (*get_sizes)(void* tensor, int64** sizes);
    int32 (*get_strides)(void* tensor, int64** strides);
    bool (*requires_grad)(void* implementation);
    bool (*grad_enabled)();
    int64 (*dispatch_modes)();
};

extern "C" {
// Set by the loader, before any call.
__attribute__((visibility("default"))) const Runtime* kernelwright_runtime = nullptr;
}

struct Job {
    void (*body)(const void* function, int64 begin, int64 end);
    const void* function;
    int64 n;

    // Contiguous shares of equal size, so that a thread touches the same memory call after call.
    void share(int64 thread, int64 threads) const {
        int64 size = (n + threads - 1) / threads, begin = thread * size;
        int64 end = begin + size < n ? begin + size : n;
        if (begin < end) body(function, begin, end);
    }
};

// ---- The one place that knows the platform's threads -----------------------------------------------------------

inline int64 thread_count() {
    const Runtime* runtime = kernelwright_runtime;
    if (!runtime || !(runtime->gomp_parallel || runtime->kmpc_fork_call)) return 1;
    // torch's count first: set_num_threads() holds for the thread that called it, which OpenMP alone does not know.
    if (runtime->torch_get_num_threads) return runtime->torch_get_num_threads();
    return runtime->omp_get_max_threads ? runtime->omp_get_max_threads() : 1;
}

inline void gomp_share(void* data) {
    const Runtime* runtime = kernelwright_runtime;
    static_cast<Job*>(data)->share(runtime->omp_get_thread_num(), runtime->omp_get_num_threads());
}

inline void kmpc_share(int32*, int32*, void* data) { gomp_share(data); }

inline void run(Job& job, int64 threads) {
    const Runtime* runtime = kernelwright_runtime;
    if (runtime->gomp_parallel) {  // Linux: the libgomp that torch brought
        runtime->gomp_parallel(gomp_share, &job, uint32(threads), 0);
    } else {  // macOS: LLVM's libomp, which reads the place it is called from out of this structure
        static struct {
            int32 reserved, flags, reserved2, reserved3;
            const char* place;
        } where = {0, 2, 0, 0, ";kernelwright;parallel_for;0;0;;"};
        runtime->kmpc_push_num_threads(&where, runtime->kmpc_global_thread_num(&where), int32(threads));
        runtime->kmpc_fork_call(&where, 1, kmpc_share, &job);
    }
}

}  // namespace kernelwright

// Calls function(begin, end) for parts that together cover 0 to n, on torch's own threads. No part is smaller than
// about `grain` items; n <= grain runs right here. Choose a grain worth 10 us of work: a fork and join costs 2.
template <class Function>
inline void parallel_for(int64 n, int64 grain, const Function& function) {
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    if (n > grain) {
        int64 threads = kernelwright::thread_count(), useful = (n + grain - 1) / grain;
        if (threads > useful) threads = useful;
        if (threads > 1) {
            kernelwright::Job job = {
                [](const void* data, int64 begin, int64 end) { (*static_cast<const Function*>(data))(begin, end); },
                &function,
                n,
            };
            kernelwright::run(job, threads);
            return;
        }
    }
    function(int64(0), n);
}
