// Atomics and fences (specification 6.15), and the memory flags of barriers.
#pragma once

#include "math.hpp"

#define __METAL_MEMORY_SCOPE_SYSTEM__ 4

namespace metal {

enum memory_order {
  memory_order_relaxed = __ATOMIC_RELAXED,
  memory_order_acquire = __ATOMIC_ACQUIRE,
  memory_order_release = __ATOMIC_RELEASE,
  memory_order_acq_rel = __ATOMIC_ACQ_REL,
  memory_order_seq_cst = __ATOMIC_SEQ_CST,
};
enum thread_scope {
  thread_scope_thread,
  thread_scope_simdgroup,
  thread_scope_threadgroup,
  thread_scope_device,
};
enum class mem_flags : uint {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
  mem_texture = 4,
  mem_threadgroup_imageblock = 8,
  mem_object_data = 16,
};
METAL_INLINE constexpr mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((uint)a | (uint)b); }
METAL_INLINE constexpr mem_flags operator&(mem_flags a, mem_flags b) { return (mem_flags)((uint)a & (uint)b); }

template <class T>
struct _atomic {
  T __s;
};
template <class T>
using atomic = _atomic<T>;
using atomic_int = _atomic<int>;
using atomic_uint = _atomic<uint>;
using atomic_long = _atomic<long>;
using atomic_ulong = _atomic<ulong>;
using atomic_float = _atomic<float>;
using atomic_bool = _atomic<bool>;

// In clang a named space converts to the default one, so one signature serves device and threadgroup objects. `thread`
// objects are no place for atomics; they are not told apart here.
template <class T>
METAL_INLINE T atomic_load_explicit(const volatile _atomic<T>* p, memory_order order) {
  return simt::atomic_load((T*)&p->__s, order);
}
template <class T, class U>
METAL_INLINE void atomic_store_explicit(volatile _atomic<T>* p, U value, memory_order order, thread_scope = thread_scope_device) {
  simt::atomic_store((T*)&p->__s, (T)value, order);
}
template <class T, class U>
METAL_INLINE T atomic_exchange_explicit(volatile _atomic<T>* p, U value, memory_order order) {
  return simt::atomic_exchange((T*)&p->__s, (T)value, order);
}
template <class T, class U>
METAL_INLINE bool atomic_compare_exchange_weak_explicit(
    volatile _atomic<T>* p, T* expected, U desired, memory_order success, memory_order failure) {
  return simt::atomic_compare_exchange((T*)&p->__s, expected, (T)desired, success, failure);
}
#define METAL_FETCH(name) \
  template <class T, class U> \
  METAL_INLINE T atomic_fetch_##name##_explicit(volatile _atomic<T>* p, U value, memory_order order) { \
    return simt::atomic_fetch_##name((T*)&p->__s, (T)value, order); \
  }
METAL_FETCH(add)
METAL_FETCH(sub)
METAL_FETCH(and)
METAL_FETCH(or)
METAL_FETCH(xor)
METAL_FETCH(min)
METAL_FETCH(max)
#undef METAL_FETCH
// On unsigned 64-bit numbers, without a result.
template <class T, class U>
METAL_INLINE void atomic_min_explicit(volatile _atomic<T>* p, U value, memory_order order) {
  simt::atomic_fetch_min((T*)&p->__s, (T)value, order);
}
template <class T, class U>
METAL_INLINE void atomic_max_explicit(volatile _atomic<T>* p, U value, memory_order order) {
  simt::atomic_fetch_max((T*)&p->__s, (T)value, order);
}
METAL_INLINE void atomic_thread_fence(mem_flags, memory_order order = memory_order_seq_cst, thread_scope scope = thread_scope_device) {
  simt::fence((int)order, (uint)scope);
}

}  // namespace metal
