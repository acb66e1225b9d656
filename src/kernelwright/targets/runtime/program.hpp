// What the entries of loop programs use beyond those of kernels: arrays with their shapes and strides, results, and
// arrays that a program was specialised to.
//
// A program takes each array as words (data, shape..., strides..., in elements), so that one convention holds for all.

namespace kernelwright {

constexpr int64 item_bytes[] = {4, 8, 8, 4, 1, 1, 2, 2, 1, 2, 2, 4, 8};

template <int dimensions>
inline void pack(int64* words) {
    int64 stride = 1;
    for (int axis = dimensions - 1; axis >= 0; axis--) {
        words[1 + dimensions + axis] = stride;
        stride *= words[1 + axis];
    }
}

// Whether `object` is exactly such an array, contiguous or exactly not: each has an overload of its own.
template <int dtype, int dimensions, bool write, bool contiguous>
inline bool as_array(Object* object, int64* words, Seen& seen) {
    const Runtime* runtime = kernelwright_runtime;
    if (object->type == runtime->array_type) {
        Array* array = reinterpret_cast<Array*>(object);
        constexpr int needed = array_aligned | (write ? array_writeable : 0);
        if (array->dtype != runtime->array_dtypes[dtype] || array->dimensions != dimensions) return false;
        if ((array->flags & needed) != needed || bool(array->flags & array_contiguous) != contiguous) return false;
        words[0] = reinterpret_cast<int64>(array->data);
        for (int axis = 0; axis < dimensions; axis++) words[1 + axis] = array->shape[axis];
        if constexpr (contiguous) {
            pack<dimensions>(words);
        } else {
            for (int axis = 0; axis < dimensions; axis++) {
                if (array->strides[axis] % item_bytes[dtype]) return false;  // a field of a record
                words[1 + dimensions + axis] = array->strides[axis] / item_bytes[dtype];
            }
        }
        return true;
    }
    if (!runtime->tensor_type || (object->type != runtime->tensor_type && object->type != runtime->parameter_type))
        return false;
    char* tensor = reinterpret_cast<char*>(object) + runtime->tensor_offset;
    char* implementation = *reinterpret_cast<char**>(tensor);
    uint64 keys = *reinterpret_cast<uint64*>(implementation + runtime->keys_offset);
    if ((keys & runtime->keys_required) != runtime->keys_required || (keys & ~runtime->keys_allowed)) return false;
    int32 found;
    bool dense;
    int64 count, *sizes, *strides;
    void* data;
    if (runtime->get_dtype(tensor, &found) || found != runtime->tensor_dtypes[dtype]) return false;
    if (runtime->get_dim(tensor, &count) || count != dimensions) return false;
    if (runtime->is_contiguous(tensor, &dense) || dense != contiguous) return false;
    if (runtime->get_sizes(tensor, &sizes) || runtime->get_strides(tensor, &strides)) return false;
    if (runtime->get_data(tensor, &data)) return false;
    int64 numel = 1;
    words[0] = reinterpret_cast<int64>(data);
    for (int axis = 0; axis < dimensions; axis++) {
        numel *= words[1 + axis] = sizes[axis];
        words[1 + dimensions + axis] = strides[axis];
    }
    if (contiguous) pack<dimensions>(words);
    if (!data && numel) return false;  // its storage was freed
    seen.tensor = true;
    seen.grad |= runtime->requires_grad(implementation);
    return true;
}

// An array that cannot change, as it was when a plan was made for it. The object can change its shape, not its bytes.
struct Bound {
    Object* object;
    char* data;
    Object* dtype;
    int64 dimensions;
    int64 words[16];  // shape, then strides in bytes
};

inline bool is_bound(Object* object, const Bound* bound) {
    if (object != bound->object) return false;
    Array* array = reinterpret_cast<Array*>(object);
    if (array->data != bound->data || array->dtype != bound->dtype || array->dimensions != bound->dimensions)
        return false;
    for (int64 axis = 0; axis < bound->dimensions; axis++)
        if (array->shape[axis] != bound->words[axis] || array->strides[axis] != bound->words[8 + axis]) return false;
    return true;
}

// The first byte of a strided array and the one after its last.
struct Extent {
    int64 begin, end;
};

inline Extent extent(const int64* words, int dimensions, int64 bytes) {
    int64 low = 0, high = 0;
    for (int axis = 0; axis < dimensions; axis++) {
        int64 size = words[1 + axis], reach = (size - 1) * words[1 + dimensions + axis];
        if (size == 0) return {0, 0};
        (reach < 0 ? low : high) += reach;
    }
    return {words[0] + low * bytes, words[0] + (high + 1) * bytes};
}

inline bool apart(Extent x, Extent y) { return x.end <= y.begin || y.end <= x.begin; }

// A scalar of exactly Python's own type, where an overload was made for that type.
inline bool is_float(Object* object) { return object->type == kernelwright_runtime->float_type; }
inline bool is_int(Object* object) { return object->type == kernelwright_runtime->int_type; }

inline void* result(const char* bytes, double) { return kernelwright_runtime->from_double(*(const double*)bytes); }
inline void* result(const char* bytes, float) { return kernelwright_runtime->from_double(*(const float*)bytes); }
inline void* result(const char* bytes, bool) {
    void* object = *(const bool*)bytes ? kernelwright_runtime->true_object : kernelwright_runtime->false_object;
    kernelwright_runtime->add_reference(object);
    return object;
}
template <class Integer>
inline void* result(const char* bytes, Integer) {
    Integer value = *(const Integer*)bytes;
    if constexpr (Integer(-1) < Integer(0)) return kernelwright_runtime->from_int64(value);
    return kernelwright_runtime->from_uint64(uint64(value));
}

// Calls fail(address of error), which raises.
inline void* failed(void* fail, const void* error) {
    const Runtime* runtime = kernelwright_runtime;
    void* address = runtime->from_int64(reinterpret_cast<int64>(error));
    if (!address) return nullptr;
    void* answer = runtime->call(fail, &address, 1, nullptr);
    runtime->drop_reference(address);
    return answer;
}

}  // namespace kernelwright
