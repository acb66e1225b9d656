// Worker threads that run the groups of a launch, one launch at a time. A shared library of its own, one to a process.
//
// Not torch's OpenMP threads: a worker needs 129 MiB of address space for stacks, and torch may be absent. Idle workers
// sleep, so the two don't fight for cores.
#include "simt.hpp"

extern "C" {
void* mmap(void*, simt::size_t, int, int, int, long);
int munmap(void*, simt::size_t);
int pthread_create(unsigned long*, const void*, void* (*)(void*), void*);
int pthread_detach(unsigned long);
int pthread_mutex_init(void*, const void*);
int pthread_mutex_lock(void*);
int pthread_mutex_unlock(void*);
int pthread_cond_init(void*, const void*);
int pthread_cond_wait(void*, void*);
int pthread_cond_broadcast(void*);
int getpid();
long write(int, const void*, simt::size_t);
simt::size_t strlen(const char*);
#ifdef __linux__
int sigaction(int, const void*, void*);
#endif
}

namespace simt {
namespace {

using Run = void (*)(Launch*, Worker*);

constexpr u32 kMaxWorkers = 256;

struct Lock {
  alignas(16) char bytes[128];
};

struct Pool {
  Lock launching, lock, work, done;
  int pid;
  u32 threads;     // started, beside the calling one
  u32 wanted;      // that shall take part in this launch
  u32 working;
  u64 generation;  // counts launches
  Run run;
  Launch* launch;
  const char* name;
  Worker workers[kMaxWorkers];
} pool;

bool provide(Worker& w) {
  if (w.group) return true;
  constexpr int kReadWrite = 3;
#ifdef __APPLE__
  constexpr int kPrivate = 0x1002;
#else
  constexpr int kPrivate = 0x4022;  // anonymous, without reserve
#endif
  char* p = (char*)mmap(nullptr, 2 * kArenaBytes, kReadWrite, kPrivate, -1, 0);
  if (p == (char*)-1) return false;
  char* base = (char*)((u64(p) + kArenaBytes - 1) & ~(kArenaBytes - 1));
  if (base != p) munmap(p, u64(base - p));
  munmap(base + kUsedBytes, u64(p + 2 * kArenaBytes - base) - kUsedBytes);
  w.group = (Group*)base;
  return true;
}

void* serve(void* argument) {
  u32 number = u32(u64(argument));
  u64 seen = 0;
  pthread_mutex_lock(&pool.lock);
  for (;;) {
    while (pool.generation == seen || number > pool.wanted) {
      seen = pool.generation;
      pthread_cond_wait(&pool.work, &pool.lock);
    }
    seen = pool.generation;
    pthread_mutex_unlock(&pool.lock);
    pool.run(pool.launch, &pool.workers[number]);
    pthread_mutex_lock(&pool.lock);
    if (--pool.working == 0) pthread_cond_broadcast(&pool.done);
  }
}

#ifdef __linux__

// glibc's struct sigaction; musl's begins alike.
struct Action {
  void (*handler)(int, void*, void*);
  unsigned long mask[16];
  int flags;
  void (*restorer)();
};
constexpr int kSignals[] = {4, 7, 8, 11};  // ILL, BUS, FPE, SEGV
Action before[4];

void say(const char* text) { (void)!write(2, text, strlen(text)); }

// Says which kernel it was, then lets whoever was there before have the signal, as if we had not been.
void crashed(int number, void*, void*) {
  if (pool.name) {
    say("kernelwright: kernel ");
    say(pool.name);
    say(number == 8 ? " divided by zero\n" : number == 4 ? " ran into a trap\n" : " touched memory that is not its own\n");
  }
  for (u32 i = 0; i < 4; i++)
    if (kSignals[i] == number) sigaction(number, &before[i], nullptr);
}

void watch_crashes() {
  constexpr int kInformed = 4, kOnStack = 0x08000000;
  Action a{};
  a.handler = crashed;
  a.flags = kInformed | kOnStack;
  for (u32 i = 0; i < 4; i++) sigaction(kSignals[i], &a, &before[i]);
}
void unwatch_crashes() {
  for (u32 i = 0; i < 4; i++) sigaction(kSignals[i], &before[i], nullptr);
}

#else
void watch_crashes() {}
void unwatch_crashes() {}
#endif

}  // namespace

extern "C" {

// Runs `run` on up to `workers` threads, this one among them. Returns 0, or 1 where address space for stacks is missing.
__attribute__((visibility("default"))) int simt_pool_run(Run run, Launch* launch, u32 workers, const char* name) {
  if (pool.pid != getpid()) {  // first use, or the child of a fork, to which no thread came along
    pool.pid = getpid();
    pool.threads = pool.working = pool.wanted = 0;
    pthread_mutex_init(&pool.launching, nullptr);
    pthread_mutex_init(&pool.lock, nullptr);
    pthread_cond_init(&pool.work, nullptr);
    pthread_cond_init(&pool.done, nullptr);
  }
  if (workers > kMaxWorkers) workers = kMaxWorkers;
  pthread_mutex_lock(&pool.launching);
  u32 others = 0;
  bool ready = provide(pool.workers[0]);
  while (ready && others + 1 < workers) {
    if (!provide(pool.workers[others + 1])) break;
    if (others == pool.threads) {
      unsigned long thread;
      if (pthread_create(&thread, nullptr, serve, (void*)u64(others + 1))) break;
      pthread_detach(thread);
      pool.threads++;
    }
    others++;
  }
  if (ready) {
    pool.name = name;
    watch_crashes();
    if (others) {
      pthread_mutex_lock(&pool.lock);
      pool.run = run;
      pool.launch = launch;
      pool.wanted = pool.working = others;
      pool.generation++;
      pthread_cond_broadcast(&pool.work);
      pthread_mutex_unlock(&pool.lock);
    }
    run(launch, &pool.workers[0]);
    if (others) {
      pthread_mutex_lock(&pool.lock);
      while (pool.working) pthread_cond_wait(&pool.done, &pool.lock);
      pthread_mutex_unlock(&pool.lock);
    }
    unwatch_crashes();
    pool.name = nullptr;
  }
  pthread_mutex_unlock(&pool.launching);
  return ready ? 0 : 1;
}

}  // extern "C"
}  // namespace simt
