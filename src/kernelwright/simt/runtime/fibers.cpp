// Runs the threads of one group as fibers on one worker thread. Compiled once and linked to every entry that waits.
//
// Order is fixed: lanes of a SIMD group from the lowest, SIMD groups from the lowest, so a run repeats bit by bit. Lanes
// that wait in several places meet at the lowest first: sites.py numbers them so that a branch comes before the join.
#include "groups.hpp"

namespace simt {
namespace {

// Saves what a call must keep (the clobbers make the compiler save the rest), leaves through a jump instead of a return:
// all fibers of a group leave from the same place to the same place, so the processor predicts it.
SIMT_INLINE void change(void** from, void* to) {
#if defined(__x86_64__)
  asm volatile(
      "lea 1f(%%rip), %%rax\n\t"
      "push %%rbp\n\t"
      "push %%rax\n\t"
      "mov %%rsp, (%%rdi)\n\t"
      "mov %%rsi, %%rsp\n\t"
      "pop %%rax\n\t"
      "jmp *%%rax\n"
      "1:\n\t"
      "pop %%rbp"
      : "+D"(from), "+S"(to)
      :
      : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3",
        "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory",
#ifdef __AVX512F__
        "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27",
        "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7",
#endif
        "cc");
#else
  register void** f asm("x0") = from;
  register void* t asm("x1") = to;
  asm volatile(
      "adr x2, 1f\n\t"
      "stp x29, x2, [sp, #-32]!\n\t"
      "str x19, [sp, #16]\n\t"
      "mov x3, sp\n\t"
      "str x3, [x0]\n\t"
      "mov sp, x1\n\t"
      "ldp x29, x2, [sp]\n\t"
      "ldr x19, [sp, #16]\n\t"
      "add sp, sp, #32\n\t"
      "br x2\n"
      "1:"
      : "+r"(f), "+r"(t)
      :
      : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x20",
        "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",
        "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23",
        "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "memory", "cc");
#endif
}

char* stack_low(Group& g, u32 i) { return (char*)&g + kGroupBytes + u64(i) * kStackBytes; }

[[noreturn]] void fiber_main();

// A new stack that starts in fiber_main. Tops are spread over 32 KiB: at equal strides all would fall into the same sets of
// the caches.
void* fresh_stack(Group& g, u32 stack) {
  char* top = stack_low(g, stack) + kStackBytes - 64 - (stack * 37 % 257) * 128;
  void** s = (void**)((u64)top & ~63ul);
#if defined(__x86_64__)
  *--s = nullptr;  // the return address that nobody uses; leaves the stack as a call does
  *--s = (void*)&fiber_main;
#else
  s -= 4;
  s[0] = nullptr, s[1] = (void*)&fiber_main, s[2] = nullptr;
#endif
  return s;
}

// The fiber to run instead of the current one, which waits.
SIMT_INLINE void enter(Group& g, Fiber& from, Fiber& to) {
  if (&from == &to) return;
  g.current = &to;
  g.switches++;
  if (__builtin_expect(!to.started, 0)) {
    to.started = true;
    to.stack = g.free_stack[--g.free_stacks];
    to.stack_pointer = fresh_stack(g, to.stack);
  }
  change(&from.stack_pointer, to.stack_pointer);
}

Fiber* next_of_group(Group& g, Simd& s, Fiber* self);

// To the next lane, which is nearly always ready: its place is known without loads that wait for each other.
SIMT_INLINE void hand_on(Group& g, Simd& s, Fiber& f) {
  if (__builtin_expect(s.ready >> f.lane >> 1 & 1, 1))
    enter(g, f, (&f)[1]);
  else
    enter(g, f, s.ready ? s.fibers[__builtin_ctzl(s.ready)] : *next_of_group(g, s, &f));
}

[[noreturn]] void leave(Group& g) {
  void* nowhere;
  change(&nowhere, g.worker_stack_pointer);
  __builtin_unreachable();
}

// Lets the lanes of `s` that wait at one place go on.
void meet(Group& g, Simd& s) {
  u64 lanes = s.waiting;
  if (s.mixed) {
    const void* site = nullptr;
    for (u64 rest = s.waiting; rest; rest &= rest - 1) {
      const void* other = s.fibers[__builtin_ctzl(rest)].site;
      if (!site || other < site) site = other;
    }
    lanes = 0;
    for (u64 rest = s.waiting; rest; rest &= rest - 1) {
      u32 i = __builtin_ctzl(rest);
      if (s.fibers[i].site == site) lanes |= 1ul << i;
    }
  }
  g.exchanges++;
#ifdef SIMT_WATCH
  simt_watch_simd(s.first / SIMT_WIDTH);
#endif
  auto complete = s.fibers[__builtin_ctzl(lanes)].complete;
  if (complete) complete(s, lanes);
  s.waiting &= ~lanes;
  s.ready |= lanes;
  s.mixed = s.waiting != 0;
}

// Some fiber that can run when none of `s` can at once, or null when all threads of the group are done.
__attribute__((noinline)) Fiber* next_of_group(Group& g, Simd& s, Fiber* self) {
  Simd* at = &s;
  if (!s.waiting) {
    at = nullptr;
    for (u32 i = 0; i < g.simds && !at; i++)
      if (g.simd[i].ready | g.simd[i].waiting) at = &g.simd[i];
    if (!at) {
      if (!g.live) return nullptr;
#ifdef SIMT_WATCH
      simt_watch_barrier();  // tells of threads that wait elsewhere, with the user's lines, and goes on
      g.barrier_mixed = false;
#endif
      if (g.barrier_mixed) {
        note(g, Fault::divergent_barrier);
        leave(g);
      }
      g.barriers++;
      g.waiting_at_barrier = 0;
      for (u32 i = 0; i < g.simds; i++) {
        g.simd[i].ready = g.simd[i].at_barrier;
        g.simd[i].at_barrier = 0;
      }
      if (self && (s.ready >> self->lane & 1)) return self;
      for (u32 i = 0; i < g.simds && !at; i++)
        if (g.simd[i].ready) at = &g.simd[i];
    }
  }
  if (!at->ready) meet(g, *at);
  if (self && self->simd == at && (at->ready >> self->lane & 1)) return self;
  return at->fibers + __builtin_ctzl(at->ready);
}

[[noreturn]] void fiber_main() {
  for (;;) {
    Group& g = fiber::group();
    Fiber& f = *g.current;
    g.body(g, *g.launch);
    // The body may have gone through other stacks; this one is free as soon as it is left.
    Simd& s = *f.simd;
    u64 lane = 1ul << f.lane;
    s.live &= ~lane;
    s.ready &= ~lane;
    g.live--;
    Fiber* to = s.ready ? s.fibers + __builtin_ctzl(s.ready) : next_of_group(g, s, nullptr);
    if (!to) leave(g);
    if (!to->started) {  // goes on where this thread ended
      to->started = true;
      to->stack = f.stack;
      g.current = to;
      continue;
    }
    g.free_stack[g.free_stacks++] = u16(f.stack);
    g.current = to;
    g.switches++;
    change(&f.stack_pointer, to->stack_pointer);
    __builtin_unreachable();
  }
}

void run_group(Group& g) {
  for (u32 i = 0; i < g.threads; i++) {
    Fiber& f = g.fibers[i];
    f.started = false;
    f.index = i;
    f.lane = i % SIMT_WIDTH;
    f.simd = &g.simd[i / SIMT_WIDTH];
  }
  for (u32 i = 0; i < g.simds; i++) {
    Simd& s = g.simd[i];
    s.ready = s.live;
    s.waiting = s.at_barrier = 0;
    s.mixed = false;
    s.fibers = &g.fibers[s.first];
  }
  g.live = g.threads;
  g.waiting_at_barrier = 0;
  g.barrier_mixed = false;
  g.free_stacks = kMaxThreads;
  for (u32 i = 0; i < kMaxThreads; i++) g.free_stack[i] = u16(kMaxThreads - 1 - i);
  Fiber& f = g.fibers[0];
  f.started = true;
  f.stack = g.free_stack[--g.free_stacks];
  g.current = &f;
#ifdef SIMT_WATCH
  simt_watch_group_begin(g);
#endif
  change(&g.worker_stack_pointer, fresh_stack(g, f.stack));
#ifdef SIMT_WATCH
  simt_watch_group_end();
#endif
}

SIMT_INLINE void wait(void (*complete)(Simd&, u64), const void* site) {
  Group& g = fiber::group();
  Fiber& f = *g.current;
  Simd& s = *f.simd;
  f.site = site;
  f.complete = complete;
  if (!s.waiting)
    s.site = site;
  else if (s.site != site)
    s.mixed = true;
  u64 lane = 1ul << f.lane;
  s.waiting |= lane;
  s.ready &= ~lane;
  hand_on(g, s, f);
}

}  // namespace

extern "C" {

void simt_wait_at(void (*complete)(Simd&, u64), const void* site) { wait(complete, site); }

void simt_wait_group_at(const void* site) {
  Group& g = fiber::group();
  Fiber& f = *g.current;
  Simd& s = *f.simd;
  f.site = site;
  if (!g.waiting_at_barrier)
    g.barrier_site = site;
  else if (g.barrier_site != site)
    g.barrier_mixed = true;
  g.waiting_at_barrier++;
  u64 lane = 1ul << f.lane;
  s.at_barrier |= lane;
  s.ready &= ~lane;
  hand_on(g, s, f);
}

Group* simt_self_group() { return &fiber::group(); }
Simd* simt_self_simd() { return fiber::self().simd; }
u32 simt_self_lane() { return fiber::self().lane; }
u32 simt_self_index() { return fiber::self().index; }
u32 simt_self_x() { return fiber::group().x[fiber::self().index]; }
u32 simt_self_y() { return fiber::group().y[fiber::self().index]; }
u32 simt_self_z() { return fiber::group().z[fiber::self().index]; }
u32 simt_self_first() { return fiber::self().simd->first; }

void simt_log(Group* g, const char* text, u64 bytes) {
  Launch& l = *g->launch;
  u64 at = __atomic_fetch_add(&l.log_bytes, bytes, __ATOMIC_RELAXED);
  for (u64 i = 0; i < bytes && at + i < l.log_capacity; i++) l.log[at + i] = text[i];
}

void simt_run_fibers(Launch* launch, Worker* worker, void (*body)(Group&, const Launch&)) {
  Group& g = *worker->group;
  g.body = body;
  run_groups(*launch, g, [&] { run_group(g); });
}

}  // extern "C"
}  // namespace simt
