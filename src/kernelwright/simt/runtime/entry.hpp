// From a launch to a call of an entry's function. Included by simt.hpp; glue.py names the bindings of each parameter.
#pragma once

namespace simt {

// The real size of a group, which is smaller where the grid ends within it.
SIMT_INLINE Position group_size_at(Position group, Position whole, Position grid) {
  auto side = [](u32 at, u32 whole, u32 grid) { return grid - at * whole < whole ? grid - at * whole : whole; };
  return {side(group.x, whole.x, grid.x), side(group.y, whole.y, grid.y), side(group.z, whole.z, grid.z)};
}

// Where the thread that is about to run stands.
struct Here {
  Position thread, group, size;  // in the group; of the group; the group's own size, smaller at a ragged edge
  Position whole, groups, grid;  // size of a whole group, groups in the grid, threads in the grid
  u32 index;                     // of the thread in its group
  u32 first;                     // of its SIMD group's lane 0
  void* const* buffers;
  char* memory;
  const u32* memory_offsets;
};

namespace bind {

template <class P>
SIMT_INLINE P pointed(void* p) {
  if constexpr (__is_reference(P))
    return *(typename remove_reference<P>::type*)p;
  else
    return (P)p;
}
template <u32 Index>
struct buffer {
  template <class P>
  static SIMT_INLINE P get(const Here& h) {
    return pointed<P>(h.buffers[Index]);
  }
  template <class P>
  static SIMT_INLINE P apart(const Here& h) {
    P p = pointed<P>(h.buffers[Index]);
    if constexpr (__is_pointer(P)) __builtin_assume((u64(p) & 15) == 0);
    return p;
  }
  template <class P>
  static SIMT_INLINE P again(const Here&, P p) {
    return p;
  }
};
template <u32 Index>
struct group_memory {
  template <class P>
  static SIMT_INLINE P get(const Here& h) {
    return pointed<P>(h.memory + h.memory_offsets[Index]);
  }
};

#define SIMT_BIND(name, value)                            \
  struct name {                                           \
    template <class P>                                    \
    static SIMT_INLINE P get(const Here& h) {             \
      return as<bare<P>>(value);                          \
    }                                                     \
    template <class P>                                    \
    static SIMT_INLINE P apart(const Here& h) {           \
      return get<P>(h);                                   \
    }                                                     \
    template <class P>                                    \
    static SIMT_INLINE P again(const Here& h, P) {        \
      return get<P>(h);                                   \
    }                                                     \
  };
#define SIMT_AT(value) (Position{u32(value), 0, 0})
SIMT_BIND(thread_in_grid, (Position{h.group.x * h.whole.x + h.thread.x, h.group.y* h.whole.y + h.thread.y,
                                    h.group.z* h.whole.z + h.thread.z}))
SIMT_BIND(thread_in_group, h.thread)
SIMT_BIND(group_in_grid, h.group)
SIMT_BIND(group_size, h.size)
SIMT_BIND(dispatched_group_size, h.whole)
SIMT_BIND(groups_in_grid, h.groups)
SIMT_BIND(grid_size, h.grid)
SIMT_BIND(grid_origin, (Position{0, 0, 0}))
SIMT_BIND(thread_index, SIMT_AT(h.index))
SIMT_BIND(lane, SIMT_AT(h.index - h.first))
SIMT_BIND(simd_index, SIMT_AT(h.first / SIMT_WIDTH))
SIMT_BIND(simd_count, SIMT_AT((h.size.x * h.size.y * h.size.z + SIMT_WIDTH - 1) / SIMT_WIDTH))
SIMT_BIND(dispatched_simd_count, SIMT_AT((h.whole.x * h.whole.y * h.whole.z + SIMT_WIDTH - 1) / SIMT_WIDTH))
SIMT_BIND(simd_width, SIMT_AT(SIMT_WIDTH))
SIMT_BIND(quad_lane, SIMT_AT(h.index % 4))
SIMT_BIND(quad_index, SIMT_AT(h.index / 4))
SIMT_BIND(quad_count, SIMT_AT((h.size.x * h.size.y * h.size.z + 3) / 4))
#undef SIMT_BIND
#undef SIMT_AT

}  // namespace bind

// A pointer that no other reaches into.
template <class P>
struct apart_of {
  using type = P;
};
template <class T>
struct apart_of<T*> {
  using type = T* __restrict;
};
template <class P>
using Apart = typename apart_of<P>::type;

template <class F>
struct Call;
template <class... P>
struct Call<void (*)(P...)> {
  template <auto Function, class... Bindings>
  static SIMT_INLINE void run(const Here& h) {
    static_assert(sizeof...(P) == sizeof...(Bindings), "the entry lists another number of parameters");
    [[clang::always_inline]] Function(Bindings::template get<P>(h)...);
  }

#ifdef SIMT_CUDA
  // Four threads of a row as one, whose buffers don't overlap and are aligned to 16 bytes: loads become vectors.
  template <auto Function, class... Bindings>
  static SIMT_INLINE void row(Here h, u32 first) {
    four<Function, Bindings...>(h, first, Bindings::template apart<P>(h)...);
  }
  // Not always_inline: what "restrict" says survives only if this is simplified before it is put in.
  template <auto Function, class... Bindings>
  static inline void four(Here h, u32 first, Apart<P>... buffers) {
#pragma clang loop unroll(full)
    for (u32 i = 0; i < 4; i++) {
      h.thread.x = first + i;
      [[clang::always_inline]] Function(Bindings::template again<P>(h, buffers)...);
    }
  }
#endif
};

#ifndef SIMT_CUDA

template <auto Function, class... Bindings>
struct Entry {
  using Run = Call<decltype(Function)>;

  // Threads that never wait: one after the other, in a loop that can become vector code.
  static SIMT_INLINE void loop(Launch* launch, Worker* worker) {
    touch_group_variables();
    Launch& l = *launch;
    void* buffers[kMaxArguments];
    for (u32 i = 0; i < kMaxArguments; i++) buffers[i] = l.buffers[i];
    Here h{};
    h.whole = l.group, h.groups = l.groups, h.grid = l.grid;
    h.buffers = buffers, h.memory = (char*)worker->group + sizeof(Group), h.memory_offsets = l.group_memory;
    for (;;) {
      u64 first = __atomic_fetch_add(&l.next, l.chunk, __ATOMIC_RELAXED);
      if (first >= l.total) return;
      u64 last = first + l.chunk < l.total ? first + l.chunk : l.total;
      for (u64 g = first; g < last; g++) {
        h.group = {u32(g % h.groups.x), u32(g / h.groups.x % h.groups.y), u32(g / h.groups.x / h.groups.y)};
        h.size = group_size_at(h.group, h.whole, h.grid);
        u32 width = h.size.x;
        for (u32 z = 0; z < h.size.z; z++)
          for (u32 y = 0; y < h.size.y; y++) {
            u32 row = (z * h.size.y + y) * width;
            for (u32 x = 0; x < width; x++) {
              Here t = h;
              t.thread = {x, y, z};
              t.index = row + x;
              t.first = t.index & ~(SIMT_WIDTH - 1);
              Run::template run<Function, Bindings...>(t);
            }
          }
      }
    }
  }

  // One thread that may wait. What it reads of `g` and `l` stays while a group runs (regions.py).
  static void thread(Group& __restrict g, const Launch& __restrict l) {
    Position at{simt_self_x(), simt_self_y(), simt_self_z()};
    u32 index = simt_self_index(), first = simt_self_first();
    Here h{at, g.at, g.size, l.group, l.groups, l.grid, index, first, l.buffers, g.memory, l.group_memory};
    Run::template run<Function, Bindings...>(h);
  }
};

#else

template <auto Function, class... Bindings>
struct Entry {
  static SIMT_INLINE void thread(const Launch& l) {
    Here h{};
    h.group = {__nvvm_read_ptx_sreg_ctaid_x(), __nvvm_read_ptx_sreg_ctaid_y(), __nvvm_read_ptx_sreg_ctaid_z()};
    h.whole = l.group, h.groups = l.groups, h.grid = l.grid;
    h.size = group_size_at(h.group, h.whole, h.grid);
    h.index = thread_index();
    h.first = h.index & ~(SIMT_WIDTH - 1);
    if (h.index >= h.size.x * h.size.y * h.size.z) return;
    h.thread = {h.index, 0, 0};
    if (h.size.y * h.size.z != 1)
      h.thread = {h.index % h.size.x, h.index / h.size.x % h.size.y, h.index / h.size.x / h.size.y};
    h.buffers = l.buffers, h.memory = (char*)simt_dynamic_memory, h.memory_offsets = l.group_memory;
    Call<decltype(Function)>::template run<Function, Bindings...>(h);
  }

  // For entries that see nothing but their place in a grid of one dimension.
  static SIMT_INLINE void row(const Launch& l) {
    u32 first = (__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + warp::thread()) * 4;
    if (first >= l.grid.x) return;
    Here h{};
    h.whole = l.group, h.groups = l.groups, h.grid = l.grid, h.buffers = l.buffers;
    Call<decltype(Function)>::template row<Function, Bindings...>(h, first);
  }
};

#endif

}  // namespace simt
