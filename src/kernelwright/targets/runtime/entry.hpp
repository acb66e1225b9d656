// The way from a Python call to a kernel: METH_FASTCALL entries without Python.h.
//
// The fast path accepts only what it is sure of. Anything else goes, arguments untouched, to the Python object that
// the entry is bound to (entry/call.py), which launches the kernel or raises a LaunchError that says what is wrong.

namespace kernelwright {

struct Object {
    int64 references;
    Object* type;
};

// PyArrayObject_fields: public, and the same from NumPy 1.7 to 2.x.
struct Array {
    Object head;
    char* data;
    int32 dimensions;
    int64* shape;
    int64* strides;
    Object* base;
    Object* dtype;
    int32 flags;
};

constexpr int array_contiguous = 0x1, array_aligned = 0x100, array_writeable = 0x400;

// Indices of Runtime::array_dtypes and tensor_dtypes. A uint8 pointer takes bool as well, which is index + 1.
enum Dtype {
    float32, float64, int64_, int32_, uint8_, bool_, half_, bfloat16_, int8_, int16_, uint16_, uint32_, uint64_
};

// What the arguments looked at so far hold.
struct Seen {
    bool tensor = false;
    bool grad = false;
};

// A tensor is plain when its dispatch keys are those of a dense CPU tensor and no more: no subclass, fake or
// functorch tensor, no lazy negation or conjugation, nothing sparse, nothing on another device.
template <int dtype, bool write>
inline bool as_pointer(Object* object, void*& data, Seen& seen) {
    const Runtime* runtime = kernelwright_runtime;
    if (object->type == runtime->tensor_type || object->type == runtime->parameter_type) {
        if (!runtime->tensor_type) return false;
        char* tensor = reinterpret_cast<char*>(object) + runtime->tensor_offset;
        char* implementation = *reinterpret_cast<char**>(tensor);
        uint64 keys = *reinterpret_cast<uint64*>(implementation + runtime->keys_offset);
        if ((keys & runtime->keys_required) != runtime->keys_required || (keys & ~runtime->keys_allowed)) return false;
        int32 found;
        bool contiguous;
        if (runtime->get_dtype(tensor, &found) || runtime->is_contiguous(tensor, &contiguous)) return false;
        if (found != runtime->tensor_dtypes[dtype] && !(dtype == uint8_ && found == runtime->tensor_dtypes[bool_]))
            return false;
        if (!contiguous || runtime->get_data(tensor, &data)) return false;
        if (!data) {  // an empty tensor, or one whose storage was freed
            int64 numel;
            if (runtime->get_numel(tensor, &numel) || numel) return false;
        }
        seen.tensor = true;
        seen.grad |= runtime->requires_grad(implementation);
        return true;
    }
    if (object->type == runtime->array_type) {
        Array* array = reinterpret_cast<Array*>(object);
        if (array->dtype != runtime->array_dtypes[dtype] &&
            !(dtype == uint8_ && array->dtype == runtime->array_dtypes[bool_]))
            return false;
        constexpr int needed = array_contiguous | array_aligned | (write ? array_writeable : 0);
        data = array->data;
        return (array->flags & needed) == needed;
    }
    return false;
}

inline bool as_scalar(Object* object, int64& value) {
    if (object->type != kernelwright_runtime->int_type) return false;
    int overflow = 0;
    value = kernelwright_runtime->as_int64(object, &overflow);
    return !overflow;
}

inline bool as_scalar(Object* object, int32& value) {
    int64 wide;
    if (!as_scalar(object, wide)) return false;
    value = int32(wide);
    return value == wide;
}

inline bool as_scalar(Object* object, double& value) {
    if (object->type == kernelwright_runtime->float_type) {
        value = kernelwright_runtime->as_double(object);
        return true;
    }
    int64 whole;
    if (!as_scalar(object, whole)) return false;
    value = double(whole);
    return true;
}

inline bool as_scalar(Object* object, float& value) {
    double wide;
    if (!as_scalar(object, wide)) return false;
    value = float(wide);
    return true;
}

inline bool as_scalar(Object* object, bool& value) {
    value = object == kernelwright_runtime->true_object;
    return value || object->type == static_cast<Object*>(kernelwright_runtime->true_object)->type;
}

// Whether a launch would slip past something that watches torch's operations: autograd, or a dispatch mode.
inline bool watched(const Seen& seen) {
    const Runtime* runtime = kernelwright_runtime;
    return seen.tensor && ((seen.grad && runtime->grad_enabled()) || runtime->dispatch_modes());
}

inline Object* none() {
    kernelwright_runtime->add_reference(kernelwright_runtime->none);
    return static_cast<Object*>(kernelwright_runtime->none);
}

}  // namespace kernelwright
