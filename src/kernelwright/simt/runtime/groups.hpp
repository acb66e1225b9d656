// The groups of a launch, one after the other on each worker. Included by what runs a group: fibers.cpp, regions.cpp.
#pragma once

#include "simt.hpp"

namespace simt {

constexpr u64 kAllLanes = ~0ul >> (64 - SIMT_WIDTH);

// Tells of a fault, unless another group was first; no group is begun from now on.
inline void note(Group& g, Fault fault) {
  u32 none = 0;
  if (__atomic_compare_exchange_n(&g.launch->fault, &none, u32(fault), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    g.launch->fault_group = g.at;
}

// Where threads stand in a group whose size differs from the last one's.
inline void lay_out(Group& g) {
  u32 index = 0;
  for (u32 z = 0; z < g.size.z; z++)
    for (u32 y = 0; y < g.size.y; y++)
      for (u32 x = 0; x < g.size.x; x++, index++) g.x[index] = x, g.y[index] = y, g.z[index] = z;
  g.threads = index;
  g.simds = (index + SIMT_WIDTH - 1) / SIMT_WIDTH;
  for (u32 i = 0; i < g.simds; i++) {
    Simd& s = g.simd[i];
    s.first = i * SIMT_WIDTH;
    s.x = g.x[s.first], s.y = g.y[s.first], s.z = g.z[s.first];
    s.in_row = s.x + SIMT_WIDTH <= g.size.x;
  }
}

template <class Run>
SIMT_INLINE void run_groups(Launch& l, Group& g, Run run) {
  g.launch = &l;
  g.memory = (char*)&g + sizeof(Group);
  g.switches = g.barriers = g.exchanges = 0;
  g.size = {0, 0, 0};
  touch_group_variables();
  while (!__atomic_load_n(&l.fault, __ATOMIC_RELAXED)) {
    u64 first = __atomic_fetch_add(&l.next, l.chunk, __ATOMIC_RELAXED);
    if (first >= l.total) break;
    u64 last = first + l.chunk < l.total ? first + l.chunk : l.total;
    for (u64 i = first; i < last && !__atomic_load_n(&l.fault, __ATOMIC_RELAXED); i++) {
      g.at = {u32(i % l.groups.x), u32(i / l.groups.x % l.groups.y), u32(i / l.groups.x / l.groups.y)};
      Position size = group_size_at(g.at, l.group, l.grid);
      if (size.x != g.size.x || size.y != g.size.y || size.z != g.size.z) {
        g.size = size;
        lay_out(g);
      }
      for (u32 j = 0; j < g.simds; j++) {
        u32 lanes = g.threads - j * SIMT_WIDTH;
        g.simd[j].live = lanes >= SIMT_WIDTH ? kAllLanes : (1ul << lanes) - 1;
      }
      run();
    }
  }
  __atomic_fetch_add(&l.switches, g.switches, __ATOMIC_RELAXED);
  __atomic_fetch_add(&l.barriers, g.barriers, __ATOMIC_RELAXED);
  __atomic_fetch_add(&l.exchanges, g.exchanges, __ATOMIC_RELAXED);
}

}  // namespace simt
