// Atomic operations on addresses. Included by simt.hpp. Orders are the compiler's own numbers (__ATOMIC_RELAXED = 0).
#pragma once

namespace simt {

#ifdef SIMT_CUDA
#define SIMT_ATOMIC(name, ...) __scoped_atomic_##name(__VA_ARGS__, __MEMORY_SCOPE_DEVICE)
#else
#define SIMT_ATOMIC(name, ...) __atomic_##name(__VA_ARGS__)
#endif

template <class P>
SIMT_INLINE auto atomic_load(P* p, int order = 0) {
  bare<P> v;
  SIMT_ATOMIC(load, const_cast<bare<P>*>(p), &v, order);
  return v;
}
template <class P, class T>
SIMT_INLINE void atomic_store(P* p, T value, int order = 0) {
  bare<P> v = bare<P>(value);
  SIMT_ATOMIC(store, const_cast<bare<P>*>(p), &v, order);
}
template <class P, class T>
SIMT_INLINE auto atomic_exchange(P* p, T value, int order = 0) {
  bare<P> v = bare<P>(value), old;
  SIMT_ATOMIC(exchange, const_cast<bare<P>*>(p), &v, &old, order);
  return old;
}
template <class P>
SIMT_INLINE bool atomic_compare_exchange(P* p, bare<P>* expected, bare<P> desired, int success = 0, int failure = 0) {
  return SIMT_ATOMIC(compare_exchange, const_cast<bare<P>*>(p), expected, &desired, false, success, failure);
}

#define SIMT_FETCH(name)                                                            \
  template <class P, class T>                                                       \
  SIMT_INLINE auto atomic_fetch_##name(P* p, T value, int order = 0) {              \
    return SIMT_ATOMIC(fetch_##name, const_cast<bare<P>*>(p), bare<P>(value), order); \
  }
SIMT_FETCH(add)
SIMT_FETCH(sub)
SIMT_FETCH(and)
SIMT_FETCH(or)
SIMT_FETCH(xor)
SIMT_FETCH(min)
SIMT_FETCH(max)
#undef SIMT_FETCH

}  // namespace simt
