// Runs a group whose entry was cut where it waits (regions.py): each region is a loop over the lanes of a SIMD group.
//
// The order is that of fibers.cpp: lanes and SIMD groups from the lowest, and lanes that wait in several places meet at
// the first of them, by the number regions.py gave.
#include "groups.hpp"

namespace simt {
namespace {

// Waits of one entry have numbers from 1 on; 0 is where threads start, and where they have ended.
// At a pause nobody waits for anybody: pauses have the lowest numbers.
enum class Kind : u8 { none, exchange, barrier, pause };

// The meeting at a wait, then what follows it until each of `lanes` waits again or ends; `whole`: all lanes, in a row.
using Step = void (*)(Group&, const Launch&, Simd&, char* kept, u64 lanes, bool whole);

struct Body {
  const Step* steps;
  const Kind* kinds;
  u64 kept_bytes;  // of a SIMD group, from wait to wait
};

constexpr u32 kSeveral = ~0u;

// Where all of `lanes` stand, or kSeveral.
SIMT_INLINE u32 common_state(const Simd& s, u64 lanes) {
  u16 state = s.state[__builtin_ctzl(lanes)];
  u16 others = 0;
  if (lanes == kAllLanes)
    for (u32 i = 0; i < SIMT_WIDTH; i++) others |= s.state[i] ^ state;
  else
    for (u64 rest = lanes; rest; rest &= rest - 1) others |= s.state[__builtin_ctzl(rest)] ^ state;
  return others ? kSeveral : state;
}

// Notes that `lanes` wait at a barrier.
SIMT_INLINE void arrive(Simd& s, u64 lanes, u32 state) {
  s.barrier = !s.at_barrier || s.barrier == state ? state : kSeveral;
  s.at_barrier |= lanes;
}

// Takes the lanes at the lowest state out of s.waiting.
u64 first_waiting(Simd& s, u32& state) {
  state = ~0u;
  u64 lanes = 0;
  for (u64 rest = s.waiting; rest; rest &= rest - 1) {
    u32 i = __builtin_ctzl(rest);
    if (s.state[i] < state) state = s.state[i], lanes = 0;
    if (s.state[i] == state) lanes |= 1ul << i;
  }
  s.waiting &= ~lanes;
  return lanes;
}

// Runs `lanes`, which stand at `state`, and whoever they meet, until all wait at barriers or have ended.
void advance(Group& g, const Body& b, Simd& s, u64 lanes, u32 state) {
  const Launch& l = *g.launch;
  char* kept = (char*)&g + kGroupBytes + s.first / SIMT_WIDTH * b.kept_bytes;
  for (;;) {
    b.steps[state](g, l, s, kept, lanes, lanes == kAllLanes && s.in_row);
    u32 next = common_state(s, lanes);
    if (next != kSeveral) {
      Kind kind = b.kinds[next];
      bool goes_on = kind == Kind::pause || kind == Kind::exchange;
      if (goes_on && !s.waiting) {
        g.exchanges += kind == Kind::exchange;
        state = next;
        continue;
      }
      if (goes_on) s.waiting |= lanes;
      if (kind == Kind::barrier) arrive(s, lanes, next);
    } else {
      for (u64 rest = lanes; rest; rest &= rest - 1) {
        u32 i = __builtin_ctzl(rest);
        Kind kind = b.kinds[s.state[i]];
        if (kind == Kind::exchange || kind == Kind::pause) s.waiting |= 1ul << i;
        if (kind == Kind::barrier) arrive(s, 1ul << i, s.state[i]);
      }
    }
    if (!s.waiting) return;
    lanes = first_waiting(s, state);
    g.exchanges += b.kinds[state] == Kind::exchange;
  }
}

void run_group(Group& g, const Body& b) {
  for (u32 i = 0; i < g.simds; i++) {
    Simd& s = g.simd[i];
    s.waiting = s.at_barrier = 0;
    advance(g, b, s, s.live, 0);
  }
  for (;;) {
    u32 barrier = 0;
    for (u32 i = 0; i < g.simds; i++) {
      Simd& s = g.simd[i];
      if (!s.at_barrier) continue;
      if (s.barrier == kSeveral || (barrier && s.barrier != barrier)) return note(g, Fault::divergent_barrier);
      barrier = s.barrier;
    }
    if (!barrier) return;
    g.barriers++;
    for (u32 i = 0; i < g.simds; i++) {
      Simd& s = g.simd[i];
      u64 lanes = s.at_barrier;
      s.at_barrier = 0;
      if (lanes) advance(g, b, s, lanes, barrier);
    }
  }
}

}  // namespace

extern "C" void simt_run_regions(Launch* launch, Worker* worker, const Body* body) {
  Group& g = *worker->group;
  run_groups(*launch, g, [&] { run_group(g, *body); });
}

}  // namespace simt
