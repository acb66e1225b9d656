// The grid on CPU cores. Included by simt.hpp and by fibers.cpp, which runs what waits.
//
// A group runs on one worker thread. An entry that never waits is a plain loop over its threads (entry.hpp). One that
// waits is cut there into regions (regions.py), each a loop over the lanes of a SIMD group (regions.cpp). Where that
// can't be done, every thread is a fiber: it runs until it waits, then the next one runs (fibers.cpp). All stacks of a
// worker lie in one aligned arena with the Group at its start, so a fiber finds its group in its own stack pointer;
// regions keep there what lives across a wait.
#pragma once

namespace simt {

constexpr u32 kMaxThreads = 1024;
constexpr u32 kMaxArguments = 32;
constexpr u64 kStackBytes = 128 << 10;
constexpr u64 kGroupBytes = 1 << 20;   // what comes before the stacks: the Group, then dynamic group memory
constexpr u64 kArenaBytes = 256 << 20;  // alignment of an arena; 1024 stacks and the Group lie within
constexpr u64 kUsedBytes = kGroupBytes + kMaxThreads * kStackBytes;  // of it; anything may be mapped behind
constexpr u64 kGroupMemoryBytes = 256 << 10;
constexpr u32 kSlotBytes = 32;

enum class Fault : u32 { none, divergent_barrier };

// One launch, written by Python (launching.py mirrors it) and shared by the workers.
struct Launch {
  void* buffers[kMaxArguments];
  u64 buffer_bytes[kMaxArguments];
  u32 group_memory[kMaxArguments];  // offsets into the group's dynamic memory
  Position grid, group, groups;     // threads of the grid, threads of a whole group, groups
  u32 fault;                        // a Fault, set once
  Position fault_group;
  u64 total;  // groups
  u64 next;   // the next group that nobody runs
  u64 chunk;  // how many groups a worker takes at once
  char* log;
  u64 log_capacity, log_bytes;
  u64 switches, barriers, exchanges;
};

// Bytes of the slot for a value of a size; slots of different sizes don't overlap.
constexpr u64 slot_bytes(u64 size) { return size <= 4 ? 4 : size <= 8 ? 8 : size <= 16 ? 16 : 32; }

struct Simd;
struct Group;

struct Fiber {
  void* stack_pointer;
  const void* site;  // where it waits
  void (*complete)(Simd&, u64 lanes);
  Simd* simd;
  u32 index;
  u32 lane;
  u32 stack;
  bool started;
};

struct Simd {
  // regions.py knows where these lie.
  u16 state[SIMT_WIDTH];  // of regions alone: the wait that each lane stands at, 0 if it has ended
  u32 first;              // index of lane 0 in the group
  u32 x, y, z;            // where lane 0 stands
  bool in_row;            // the others stand behind it in x
  u32 barrier;            // of regions alone: the wait of the lanes in at_barrier
  u64 ready, waiting, at_barrier, live;
  const void* site;  // where the first waiting lane waits
  bool mixed;        // lanes wait in more than one place
  Fiber* fibers;
  u64 result_lanes;
  alignas(64) u32 argument[SIMT_WIDTH];
  alignas(64) char given[SIMT_WIDTH * (4 + 8 + 16 + 32)];
  alignas(64) char result[SIMT_WIDTH * kSlotBytes];

  // What lanes give lies close together, so that loops over lanes can be vector code; apart for each size, as lanes may
  // wait in several places at once.
  template <u64 Bytes>
  SIMT_INLINE char* in(u32 lane) {
    return given + SIMT_WIDTH * (slot_bytes(Bytes) - 4) + lane * slot_bytes(Bytes);
  }
  // What one meeting leaves is taken before the next.
  template <u64 Bytes>
  SIMT_INLINE char* out(u32 lane) {
    return result + lane * slot_bytes(Bytes);
  }
};

struct Group {
  u32 x[kMaxThreads], y[kMaxThreads], z[kMaxThreads];  // where each thread stands; regions.py knows where these lie
  Launch* launch;
  Fiber* current;
  char* memory;  // dynamic group memory
  Position at, size;
  u32 threads, simds;
  // What follows is the runtime's own.
  void (*body)(Group&, const Launch&);
  void* worker_stack_pointer;
  const void* barrier_site;
  bool barrier_mixed;
  u32 live, waiting_at_barrier;
  u32 free_stacks;
  u64 switches, barriers, exchanges;
  u16 free_stack[kMaxThreads];
  Fiber fibers[kMaxThreads];
  Simd simd[kMaxThreads / SIMT_WIDTH];
};
static_assert(sizeof(Group) + kGroupMemoryBytes <= kGroupBytes);
static_assert(__builtin_offsetof(Simd, first) == 2 * SIMT_WIDTH && __builtin_offsetof(Group, x) == 0);
static_assert(kUsedBytes <= kArenaBytes);

// What a worker thread owns: its arena, made by pool.cpp.
struct Worker {
  Group* group;
};

extern "C" {
// What a kernel calls; regions.py cuts here, or sites.py turns it into one of the two below.
__attribute__((convergent, nomerge)) void simt_wait_group();
__attribute__((convergent, nomerge)) void simt_wait_simd(void (*complete)(Simd&, u64));
__attribute__((convergent, nomerge)) void simt_wait_none();
// Scalars, not vectors of two: calling conventions make a double of those, and then matrices stay in memory.
__attribute__((convergent, nomerge, const)) Pair simt_matrix_product(float a0, float a1, float b0, float b1, float c0,
                                                                     float c1);
// `site` is compared, never followed: lanes at the same one meet, those at the lowest first.
void simt_wait_at(void (*complete)(Simd&, u64), const void* site);
void simt_wait_group_at(const void* site);
void simt_run_fibers(Launch*, Worker*, void (*body)(Group&, const Launch&));
void simt_log(Group*, const char* text, u64 bytes);
// Where the running thread stands. Constant to the thread, so the compiler asks once; regions.py knows the answers.
__attribute__((const)) Group* simt_self_group();
__attribute__((const)) Simd* simt_self_simd();
__attribute__((const)) u32 simt_self_lane();
__attribute__((const)) u32 simt_self_index();
__attribute__((const)) u32 simt_self_first();  // lane 0's index
__attribute__((const)) u32 simt_self_x();      // its place in the group
__attribute__((const)) u32 simt_self_y();
__attribute__((const)) u32 simt_self_z();
#ifdef SIMT_WATCH
void simt_watch_group_begin(Group&);
void simt_watch_group_end();
void simt_watch_flags(u32 flags);
void simt_watch_barrier();
void simt_watch_simd(u32 index);
#endif
}

namespace fiber {

// Of the runtime and its checks alone: kernels ask simt_self_*.
SIMT_INLINE Group& group() { return *(Group*)(u64(__builtin_frame_address(0)) & ~(kArenaBytes - 1)); }
SIMT_INLINE Fiber& self() { return *group().current; }

}  // namespace fiber

namespace meeting {

template <class T>
SIMT_INLINE T take(const char* slot) {
  T v;
  __builtin_memcpy(&v, slot, sizeof(T));
  return v;
}
template <class T>
SIMT_INLINE void give(char* slot, const T& v) {
  __builtin_memcpy(slot, &v, sizeof(T));
}

// Gives `v`, waits for the lanes that came to the same place, returns what `complete` left for this lane.
template <class R, class T>
SIMT_INLINE R exchange(void (*complete)(Simd&, u64), T v) {
  static_assert(sizeof(T) <= kSlotBytes && sizeof(R) <= kSlotBytes, "up to 32 bytes go between lanes");
  Simd& s = *simt_self_simd();
  u32 lane = simt_self_lane();
  give(s.in<sizeof(T)>(lane), v);
  simt_wait_simd(complete);
  return take<R>(s.out<sizeof(R)>(lane));
}

// Lane i takes what lane argument[i] gave. From a lane that isn't here, or out of range, it keeps its own: the standard
// leaves that open, and what an earlier group left in the slot would differ from run to run.
template <unsigned long Bytes>
void complete_shuffle(Simd& s, u64 lanes) {
  struct Raw {
    char bytes[Bytes];
  };
  bool all = lanes == (~0ul >> (64 - SIMT_WIDTH));
  for (u32 i = 0; i < SIMT_WIDTH; i++) {
    u32 from = s.argument[i];
    bool here = from < SIMT_WIDTH && (all || lanes >> from & 1);
    if (lanes >> i & 1) give(s.out<Bytes>(i), take<Raw>(s.in<Bytes>(here ? from : i)));
  }
}
template <unsigned long Bytes>
void complete_first(Simd& s, u64 lanes) {
  struct Raw {
    char bytes[Bytes];
  };
  Raw v = take<Raw>(s.in<Bytes>(__builtin_ctzl(lanes)));
  for (u32 i = 0; i < SIMT_WIDTH; i++)
    if (lanes >> i & 1) give(s.out<Bytes>(i), v);
}
inline void complete_ballot(Simd& s, u64 lanes) {
  u64 votes = 0;
  for (u32 i = 0; i < SIMT_WIDTH; i++)
    if (lanes >> i & 1) votes |= u64(*s.in<sizeof(bool)>(i) & 1) << i;
  for (u32 i = 0; i < SIMT_WIDTH; i++)
    if (lanes >> i & 1) give(s.out<sizeof(votes)>(i), votes);
}
// A tree where all lanes are there, as the hardware's; else in the order of the lanes.
template <class Op, class T>
void complete_reduce(Simd& s, u64 lanes) {
  T v[SIMT_WIDTH];
  T result;
  if (lanes == (~0ul >> (64 - SIMT_WIDTH))) {
    for (u32 i = 0; i < SIMT_WIDTH; i++) v[i] = take<T>(s.in<sizeof(T)>(i));
#pragma clang loop unroll(full)
    for (u32 half = SIMT_WIDTH / 2; half; half /= 2)
      for (u32 i = 0; i < half; i++) v[i] = Op::join(v[i], v[i + half]);
    result = v[0];
    for (u32 i = 0; i < SIMT_WIDTH; i++) give(s.out<sizeof(T)>(i), result);
    return;
  }
  result = take<T>(s.in<sizeof(T)>(__builtin_ctzl(lanes)));
  for (u64 rest = lanes & (lanes - 1); rest; rest &= rest - 1)
    result = Op::join(result, take<T>(s.in<sizeof(T)>(__builtin_ctzl(rest))));
  for (u64 rest = lanes; rest; rest &= rest - 1) give(s.out<sizeof(T)>(__builtin_ctzl(rest)), result);
}
template <class Op, class T>
void complete_scan_inclusive(Simd& s, u64 lanes) {
  T sum = take<T>(s.in<sizeof(T)>(__builtin_ctzl(lanes)));
  give(s.out<sizeof(T)>(__builtin_ctzl(lanes)), sum);
  for (u64 rest = lanes & (lanes - 1); rest; rest &= rest - 1) {
    u32 i = __builtin_ctzl(rest);
    sum = Op::join(sum, take<T>(s.in<sizeof(T)>(i)));
    give(s.out<sizeof(T)>(i), sum);
  }
}
// The first active lane gets nothing in `out`: its caller knows what stands before the first.
template <class Op, class T>
void complete_scan_exclusive(Simd& s, u64 lanes) {
  s.result_lanes = lanes;
  T sum = take<T>(s.in<sizeof(T)>(__builtin_ctzl(lanes)));
  for (u64 rest = lanes & (lanes - 1); rest; rest &= rest - 1) {
    u32 i = __builtin_ctzl(rest);
    give(s.out<sizeof(T)>(i), sum);
    sum = Op::join(sum, take<T>(s.in<sizeof(T)>(i)));
  }
}

}  // namespace meeting

inline u32 simd_width() { return SIMT_WIDTH; }
SIMT_INLINE u32 lane() { return simt_self_lane(); }
SIMT_INLINE u32 thread_index() { return simt_self_index(); }
SIMT_INLINE u32 simd_index() { return simt_self_first() / SIMT_WIDTH; }
SIMT_INLINE u32 quad_lane() { return simt_self_lane() & 3; }
SIMT_INLINE u32 quad_index() { return simt_self_index() / 4; }

// In a watched build check.cpp is told of what orders memory; flags: 1 that of the device, 2 that of the group.
#ifdef SIMT_WATCH
SIMT_INLINE void group_barrier(u32 flags = 0) {
  simt_watch_flags(flags);
  simt_wait_group();
}
#else
SIMT_INLINE void group_barrier(u32 = 0) { simt_wait_group(); }
#endif
// Without flags it orders no memory: matrices.py drops it where nothing between its neighbours could tell.
SIMT_INLINE void simd_barrier(u32 flags = 0) {
#ifndef SIMT_WATCH
  if (!flags) return simt_wait_none();
#endif
  simt_wait_simd(nullptr);
}
SIMT_INLINE void fence(int = 0, int = 0) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

template <class T>
SIMT_INLINE T shuffle(T v, u32 to) {
  simt_self_simd()->argument[simt_self_lane()] = to;
  return meeting::exchange<T>(&meeting::complete_shuffle<sizeof(T)>, v);
}
template <class T>
SIMT_INLINE T shuffle_xor(T v, u32 mask) {
  return shuffle(v, lane() ^ mask);
}
template <class T>
SIMT_INLINE T shuffle_up(T v, u32 n) {
  return shuffle(v, lane() >= n ? lane() - n : lane());
}
template <class T>
SIMT_INLINE T shuffle_down(T v, u32 n) {
  return shuffle(v, lane() + n < SIMT_WIDTH ? lane() + n : lane());
}
template <class T>
SIMT_INLINE T rotate_up(T v, u32 n) {
  return shuffle(v, (lane() - n) & (SIMT_WIDTH - 1));
}
template <class T>
SIMT_INLINE T rotate_down(T v, u32 n) {
  return shuffle(v, (lane() + n) & (SIMT_WIDTH - 1));
}
template <class T>
SIMT_INLINE T broadcast(T v, u32 from) {
  return shuffle(v, from);
}
template <class T>
SIMT_INLINE T broadcast_first(T v) {
  return meeting::exchange<T>(&meeting::complete_first<sizeof(T)>, v);
}
SIMT_INLINE u64 ballot(bool b) { return meeting::exchange<u64>(&meeting::complete_ballot, b); }
SIMT_INLINE u64 active_lanes() { return ballot(true); }
// Within each run of `modulo` lanes; what comes from outside the run is taken from `fill`, as if it lay beside `v`.
template <class T>
SIMT_INLINE T shuffle_fill_up(T v, T fill, u32 n, u32 modulo = SIMT_WIDTH) {
  u32 base = lane() & ~(modulo - 1), at = lane() & (modulo - 1);
  T inside = shuffle(v, base + ((at - n) & (modulo - 1)));
  T outside = shuffle(fill, base + ((at - n) & (modulo - 1)));
  return at >= n ? inside : outside;
}
template <class T>
SIMT_INLINE T shuffle_fill_down(T v, T fill, u32 n, u32 modulo = SIMT_WIDTH) {
  u32 base = lane() & ~(modulo - 1), at = lane() & (modulo - 1);
  T inside = shuffle(v, base + ((at + n) & (modulo - 1)));
  T outside = shuffle(fill, base + ((at + n) & (modulo - 1)));
  return at + n < modulo ? inside : outside;
}
template <class Op, class T>
SIMT_INLINE T reduce(T v) {
  return meeting::exchange<T>(&meeting::complete_reduce<Op, T>, v);
}
template <class Op, class T>
SIMT_INLINE T scan_inclusive(T v) {
  return meeting::exchange<T>(&meeting::complete_scan_inclusive<Op, T>, v);
}
template <class Op, class T>
SIMT_INLINE T scan_exclusive(T v, T first) {
  T before = meeting::exchange<T>(&meeting::complete_scan_exclusive<Op, T>, v);
  return simt_self_lane() == u32(__builtin_ctzl(simt_self_simd()->result_lanes)) ? first : before;
}

// Both matrices' own element pairs; conversion to float is exact for every element type.
template <class A, class B>
SIMT_INLINE Pair matrix_product(const A* a, const B* b, Pair c) {
  return simt_matrix_product(float(a[0]), float(a[1]), float(b[0]), float(b[1]), c.x, c.y);
}

// The first use of a library's thread-local variables in a thread allocates them, and glibc before 2.40 loses vector
// registers on that way (its TLS descriptors). So every launch uses one before any kernel does.
inline thread_local volatile char touched_group_variables;
__attribute__((noinline)) inline void touch_group_variables() { touched_group_variables = 1; }

// One copy for each worker thread, which runs one group at a time.
#define SIMT_GROUP static thread_local __attribute__((used))

SIMT_INLINE void log(const char* text, u64 bytes) { simt_log(simt_self_group(), text, bytes); }

}  // namespace simt
