// What a watched build calls: before each access to memory (check_ir.py puts the calls there) and at each event of a
// group (the runtime's cpu.hpp does). It keeps shadow memory, finds faults and counts traffic. One worker runs all
// groups in order, each thread until it waits, so nothing here is atomic.
//
// Order of two accesses in one group: `now` grows with each barrier and each exchange within a SIMD group. An access is
// ordered before one of another thread if a group barrier that orders its kind of memory was passed in between, or, in
// the same SIMD group, any exchange or SIMD barrier. Two groups are ordered only by atomics with fences around them.
#include "simt.hpp"

using namespace simt;

extern "C" {
void* calloc(simt::size_t, simt::size_t);
void* realloc(void*, simt::size_t);
void free(void*);
void* mmap(void*, simt::size_t, int, int, int, i64);
int munmap(void*, simt::size_t);
int mincore(void*, simt::size_t, unsigned char*);
}
#define EXPORT extern "C" __attribute__((visibility("default")))

enum RangeKind : u32 { BUFFER, GROUP_STATIC, GROUP_DYNAMIC, CONSTANT, OTHER };
enum SiteKind : u32 { READ, WRITE, ATOMIC, BARRIER, FENCE, ATOMIC_READ };
enum Kind : u32 { RACE, OUT_OF_BOUNDS, UNINITIALISED, DIVERGENCE, MISALIGNED, READ_ONLY, UNFENCED, PARTIAL };
enum Mode : u32 { CHECK = 1, COUNT = 2 };
enum Flags : u32 { ORDERS_DEVICE = 1, ORDERS_GROUP = 2 };

struct Range {
  u64 begin, end;
  u32 kind, index, writable, unused;
};
struct Site {
  u32 bytes, align, kind, pointer;
};
struct Found {
  u32 kind, site, other_site, thread, other_thread, group, other_group, range;
  i64 offset;
  u64 bytes, times;
};
struct Traffic {  // of one range
  u64 bytes_read, bytes_written, atomics, requests, transactions, conflict_cycles, lines;
};

namespace {

constexpr u32 NOBODY = ~0u;
constexpr u32 MAX_FOUND = 64;
constexpr u32 LINE = 128;  // bytes of one transaction with device memory
constexpr u64 FAR_ZONE = 1 << 20, NEAR_ZONE = 2048;  // bytes around a range that are nobody else's
constexpr u32 BANKS = 32;            // of group memory, four bytes wide each
constexpr u32 MAX_REQUESTS = 1 << 20;  // of one group whose addresses are kept; later ones are scaled

struct Touch {
  u32 time, group, site;
  u16 thread;
  u8 mask, atomic;
};
struct Cell {
  Touch write, read, earlier_read;  // of two threads, so that a thread's own read doesn't hide another's
};
struct Shadow {
  Cell* cells;
  u32* written;  // group memory: in which group + 1 each byte was last written
  u32 granule;   // bytes of one cell
  u8* lines;     // buffers: one bit for each line touched
  u64 mapped;
};
struct Clock {  // which groups a group or an atomic has heard of: a Bloom filter, so that doubt means "ordered"
  u64 bits[4];
};
struct Request {
  u64 address[64];
  u32 lanes;
};
struct Requests {  // of one site in one SIMD group
  Request* list;
  u32 room, used;
};

Range* ranges;
u32 range_count;
const Site* sites;
u32 site_count;
Shadow* shadows;
Traffic* traffic;
u32 mode, poison;
u32* order;  // of ranges by address
bool placed;  // dynamic group memory lies where the first group has it

Found faults[MAX_FOUND];
u32 fault_count;
u64 suspects;  // reads of uninitialised group memory

Group* arena;
u32 group, threads, now, barrier_time, group_barrier_time, device_barrier_time, flags_now;
bool running, reaching;  // between threads' begin and end; an address was read from a buffer
u32 simd_time[kMaxThreads];
u32 barrier_site[kMaxThreads];
u8 arrived[kMaxThreads];
u64 barriers, exchanges;

constexpr u32 CLOCKS = 1 << 14;
Clock atomic_clocks[CLOCKS];
Clock known, heard;
bool published;

struct Pending {
  Found fault;
  const u8* address;
  u32 bytes;
  u8 old[64];
} pending;

Requests* requests;
u32* occurrences;
u64 kept, unkept;

void* frame[5];  // where a launch ends that cannot be finished
void (*launch_entry)(Launch*, Worker*);
bool given_up;
u32 current;

void* pages(u64 bytes) { return mmap(nullptr, bytes, 3, 0x4022, -1, 0); }  // private, anonymous, without reserve

void raise(const Found& fault) {
  for (u32 i = 0; i < fault_count; i++)
    if (faults[i].kind == fault.kind && faults[i].site == fault.site && faults[i].range == fault.range &&
        (fault.kind != DIVERGENCE || faults[i].other_site == fault.other_site)) {
      faults[i].times++;
      return;
    }
  if (fault_count == MAX_FOUND) return;
  faults[fault_count] = fault;
  faults[fault_count++].times = 1;
}

// A store of the value that is already there harms nobody; whether it is one can be seen only after it was done.
void settle() {
  if (!pending.bytes) return;
  for (u32 i = 0; i < pending.bytes; i++)
    if (pending.address[i] != pending.old[i]) {
      raise(pending.fault);
      break;
    }
  pending.bytes = 0;
}

bool is_group_memory(u32 kind) { return kind == GROUP_STATIC || kind == GROUP_DYNAMIC; }

enum Order : u32 { UNORDERED, BY_EXECUTION, BY_MEMORY };  // BY_EXECUTION: at a barrier whose flags name other memory

Order ordered(const Touch& past, bool group_memory) {
  if (past.group != group) {
    if (group_memory) return BY_MEMORY;  // another group's memory lay here
    u32 hash = past.group * 2654435761u;
    for (u32 i = 0; i < 2; i++, hash >>= 8)
      if (!(known.bits[(hash & 255) >> 6] >> (hash & 63) & 1)) return UNORDERED;
    return BY_MEMORY;
  }
  if (past.thread == current) return BY_MEMORY;
  if (past.time < (group_memory ? group_barrier_time : device_barrier_time)) return BY_MEMORY;
  u32 simd = current / SIMT_WIDTH;
  if (past.thread / SIMT_WIDTH == simd && past.time < simd_time[simd]) return BY_MEMORY;
  return past.time < barrier_time ? BY_EXECUTION : UNORDERED;
}

void hear(Clock& clock, const Clock& other) {
  for (u32 i = 0; i < 4; i++) clock.bits[i] |= other.bits[i];
}

void atomic_sync(u64 address) {
  Clock& clock = atomic_clocks[(address >> 2) * 0x9E3779B97F4A7C15ul >> 50];
  hear(heard, clock);
  if (published) {
    Clock self{};
    u32 hash = group * 2654435761u;
    for (u32 i = 0; i < 2; i++, hash >>= 8) self.bits[(hash & 255) >> 6] |= 1ul << (hash & 63);
    hear(clock, known);
    hear(clock, self);
  }
}

void device_fence() {
  published = true;
  hear(known, heard);
}

// The place in `order` of the first range that ends behind the address.
u32 find(u64 address) {
  u32 low = 0, high = range_count;
  while (low < high) {
    u32 middle = (low + high) / 2;
    if (ranges[order[middle]].end <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

void sort_ranges() {
  for (u32 i = 0; i < range_count; i++) {
    u32 at = i;
    for (; at && ranges[order[at - 1]].begin > ranges[i].begin; at--) order[at] = order[at - 1];
    order[at] = i;
  }
}

void race(const Touch& past, u32 site, u32 range, u64 offset, u64 bytes, const u8* address, bool writes) {
  u32 kind = ordered(past, is_group_memory(ranges[range].kind)) == BY_EXECUTION ? UNFENCED : RACE;
  Found fault{kind, site, past.site, current, past.thread, group, past.group, range, i64(offset), bytes, 1};
  if (writes && bytes <= sizeof pending.old && !pending.bytes) {
    pending.fault = fault;
    pending.address = address;
    pending.bytes = u32(bytes);
    for (u32 i = 0; i < pending.bytes; i++) pending.old[i] = address[i];
  } else if (!writes) {
    raise(fault);
  }
}

void check_touch(u64 address, u64 bytes, u32 site, u32 kind, u32 at) {
  const Range& range = ranges[at];
  Shadow& shadow = shadows[at];
  bool local = is_group_memory(range.kind), atomic = kind == ATOMIC || kind == ATOMIC_READ;
  bool writes = kind == WRITE || kind == ATOMIC;
  u64 offset = address - range.begin;
  if (writes && !range.writable) {
    raise(Found{READ_ONLY, site, 0, current, NOBODY, group, NOBODY, at, i64(offset), bytes, 1});
    return;
  }
  if (!shadow.cells) return;
  if (local) {
    bool fresh = false;
    for (u64 i = offset; i < offset + bytes; i++) {
      if (kind != WRITE && shadow.written[i] != group + 1) fresh = true;
      if (writes) shadow.written[i] = group + 1;
    }
    if (fresh) {
      suspects++;
      raise(Found{UNINITIALISED, site, 0, current, NOBODY, group, NOBODY, at, i64(offset), bytes, 1});
    }
  }
  bool told = false;
  for (u64 first = offset / shadow.granule; first * shadow.granule < offset + bytes; first++) {
    Cell& cell = shadow.cells[first];
    u64 begin = first * shadow.granule;
    u8 mask = 0;
    for (u32 i = 0; i < shadow.granule; i++)
      if (begin + i >= offset && begin + i < offset + bytes) mask |= u8(1u << i);
    Touch mine{now, group, site, u16(current), mask, u8(atomic)};
    auto clash = [&](const Touch& past) {
      return past.mask & mask && !(atomic && past.atomic) && ordered(past, local) != BY_MEMORY;
    };
    if (!told && clash(cell.write)) {
      told = true;
      race(cell.write, site, at, offset, bytes, (const u8*)address, writes && !atomic);
    }
    if (writes && !told && (clash(cell.read) || clash(cell.earlier_read))) {
      told = true;
      race(clash(cell.read) ? cell.read : cell.earlier_read, site, at, offset, bytes, (const u8*)address, !atomic);
    }
    if (writes) cell.write = mine;
    else {
      if (cell.read.thread != current || cell.read.group != group) cell.earlier_read = cell.read;
      cell.read = mine;
    }
  }
}

void count_touch(u64 address, u64 bytes, u32 site, u32 kind, u32 at) {
  Traffic& total = traffic[at];
  if (kind != WRITE) total.bytes_read += bytes;
  if (kind == WRITE || kind == ATOMIC) total.bytes_written += bytes;
  total.atomics += kind == ATOMIC;
  if (shadows[at].lines)
    for (u64 line = (address - ranges[at].begin) / LINE; line * LINE < address - ranges[at].begin + bytes; line++)
      shadows[at].lines[line >> 3] |= u8(1u << (line & 7));
  u32& nth = occurrences[current * site_count + site];
  Requests& mine = requests[current / SIMT_WIDTH * site_count + site];
  if (nth >= mine.room) {
    if (kept >= MAX_REQUESTS) {
      unkept++;
      return;
    }
    u32 room = mine.room ? mine.room * 2 : 4;
    mine.list = (Request*)realloc(mine.list, room * sizeof(Request));
    for (u32 i = mine.room; i < room; i++) mine.list[i].lanes = 0;
    mine.room = room;
  }
  Request& request = mine.list[nth++];
  if (nth > mine.used) {
    kept++;
    mine.used = nth;
  }
  if (request.lanes < SIMT_WIDTH) request.address[request.lanes++] = address;
}

// What the memory does for one instruction of a SIMD group: lines for buffers, cycles of the fullest bank for group memory.
void count_request(const Request& request, u32 bytes) {
  u32 place = find(request.address[0]);
  if (place == range_count || request.address[0] < ranges[order[place]].begin) return;
  u32 at = order[place];
  Traffic& total = traffic[at];
  total.requests++;
  if (!bytes) bytes = 4;
  if (is_group_memory(ranges[at].kind)) {
    u64 words[BANKS][64];
    u32 depth[BANKS] = {}, distinct = 0, fullest = 0;
    for (u32 i = 0; i < request.lanes; i++)
      for (u64 word = request.address[i] / 4; word * 4 < request.address[i] + bytes; word++) {
        u32 bank = word % BANKS, j = 0;
        while (j < depth[bank] && words[bank][j] != word) j++;
        if (j < depth[bank] || j == 64) continue;
        words[bank][depth[bank]++] = word;
        distinct++;
        if (depth[bank] > fullest) fullest = depth[bank];
      }
    total.transactions += fullest;
    total.conflict_cycles += fullest - (distinct + BANKS - 1) / BANKS;
    return;
  }
  u64 lines[128];
  u32 count = 0;
  for (u32 i = 0; i < request.lanes; i++)
    for (u64 line = request.address[i] / LINE; line * LINE < request.address[i] + bytes; line++) {
      u32 j = 0;
      while (j < count && lines[j] != line) j++;
      if (j == count && count < 128) lines[count++] = line;
    }
  total.transactions += count;
}

bool in_arena_only(u64 address) {
  u64 memory = (u64)arena->memory;
  return address - (u64)arena < kUsedBytes && address - memory >= kGroupMemoryBytes;
}

bool there(u64 address) {
  unsigned char page;
  return mincore((void*)(address & ~4095ul), 1, &page) == 0;
}

void touch(u64 address, u64 bytes, u32 site) {
  settle();
  if (!running || !bytes || in_arena_only(address)) return;  // a thread's own variables
  u32 kind = sites[site].kind, place = find(address);
  u32 at = place < range_count ? order[place] : NOBODY;
  bool inside = at != NOBODY && address >= ranges[at].begin;
  if (inside && ranges[at].kind == OTHER) return;
  current = fiber::self().index;
  if (inside && address + bytes <= ranges[at].end) {
    u32 align = sites[site].align;
    if (align > 1 && address % align && mode & CHECK) {
      raise(Found{MISALIGNED, site, 0, current, NOBODY, group, NOBODY, at, i64(address - ranges[at].begin), bytes, 1});
      __builtin_longjmp(frame, 1);  // the processor may refuse it
    }
    if (kind == ATOMIC || kind == ATOMIC_READ) atomic_sync(address);
    if (sites[site].pointer && ranges[at].kind == BUFFER) reaching = true;
    if (mode & CHECK) check_touch(address, bytes, site, kind, at);
    if (mode & COUNT) count_touch(address, bytes, site, kind, at);
    return;
  }
  // Named after the nearest range, and wild where none is near.
  if (!inside && place) {
    u32 below = order[place - 1];
    if (at == NOBODY || address - ranges[below].end < ranges[at].begin - address) at = below;
  }
  bool near = false;
  if (at != NOBODY) {
    const Range& range = ranges[at];
    u64 away = address < range.begin ? range.begin - address : address + bytes - range.end;
    near = away <= (range.kind == BUFFER ? FAR_ZONE : NEAR_ZONE);
  }
  // What an address in a buffer leads to is memory of the caller's that no range tells of.
  if (!near && reaching && there(address)) return;
  i64 offset = i64(near ? address - ranges[at].begin : address);
  raise(Found{OUT_OF_BOUNDS, site, 0, current, NOBODY, group, NOBODY, near ? at : NOBODY, offset, bytes, 1});
  if (!near || ranges[at].kind == CONSTANT) __builtin_longjmp(frame, 1);  // nothing, or nothing of ours, lies there
}

void watch_site(u32 kind, u32 site, u32 other, u32 thread, u32 other_thread) {
  raise(Found{kind, site, other, thread, other_thread, group, group, NOBODY, 0, 0, 1});
}

void meet() {
  settle();
  u32 first = NOBODY;
  for (u32 i = 0; i < threads; i++) {
    if (!arrived[i]) continue;
    if (first == NOBODY) first = i;
    else if (barrier_site[i] != barrier_site[first]) {
      watch_site(DIVERGENCE, barrier_site[first], barrier_site[i], first, i);
      break;
    }
  }
  if (first == NOBODY) return;
  // Hardware counts SIMD groups: where some lane of each came, the rest is not waited for.
  u32 missing = NOBODY, empty = NOBODY;
  for (u32 simd = 0; simd * SIMT_WIDTH < threads; simd++) {
    bool any = false;
    for (u32 i = simd * SIMT_WIDTH; i < threads && i < (simd + 1) * SIMT_WIDTH; i++) {
      any |= arrived[i];
      if (!arrived[i] && missing == NOBODY) missing = i;
    }
    if (!any && empty == NOBODY) empty = simd * SIMT_WIDTH;
  }
  if (empty != NOBODY) watch_site(DIVERGENCE, barrier_site[first], NOBODY, first, empty);
  else if (missing != NOBODY) watch_site(PARTIAL, barrier_site[first], NOBODY, first, missing);
  for (u32 i = 0; i < threads; i++) arrived[i] = 0;
}

void finish_requests() {
  u32 simds = (threads + SIMT_WIDTH - 1) / SIMT_WIDTH;
  for (u32 i = 0; i < simds * site_count; i++) {
    Requests& mine = requests[i];
    for (u32 j = 0; j < mine.used; j++) {
      count_request(mine.list[j], sites[i % site_count].bytes);
      mine.list[j].lanes = 0;
    }
    mine.used = 0;
  }
  for (u64 i = 0; i < u64(threads) * site_count; i++) occurrences[i] = 0;
}

}  // namespace

EXPORT void simt_watch_access(u64 address, u32 site) { touch(address, sites[site].bytes, site); }
EXPORT void simt_watch_bytes(u64 address, u64 bytes, u32 site) { touch(address, bytes, site); }
EXPORT void simt_watch_site(u32 site) {
  settle();
  if (sites[site].kind == FENCE) return device_fence();
  u32 thread = fiber::self().index;
  barrier_site[thread] = site;
  arrived[thread] = 1;
}
EXPORT void simt_watch_flags(u32 flags) { flags_now = flags; }
EXPORT void simt_watch_group_begin(Group& g) {
  settle();
  arena = &g;
  group = (g.at.z * g.launch->groups.y + g.at.y) * g.launch->groups.x + g.at.x;
  threads = g.threads;
  running = true;
  now++;
  barrier_time = group_barrier_time = device_barrier_time = 0;
  known = heard = Clock{};
  published = false;
  for (u32 i = 0; i < threads; i++) simd_time[i] = arrived[i] = 0;
  for (u32 i = 0; i < range_count; i++) {
    if (ranges[i].kind == GROUP_DYNAMIC && !placed) {
      ranges[i].begin += (u64)g.memory;
      ranges[i].end += (u64)g.memory;
    }
    if (is_group_memory(ranges[i].kind))
      __builtin_memset((void*)ranges[i].begin, int(poison), ranges[i].end - ranges[i].begin);
  }
  if (!placed) sort_ranges();
  placed = true;
}
EXPORT void simt_watch_group_end() {
  settle();
  running = false;
  if (mode & COUNT) finish_requests();
}
EXPORT void simt_watch_barrier() {
  meet();
  barriers++;
  barrier_time = ++now;
  if (flags_now & ORDERS_GROUP) group_barrier_time = now;
  if (flags_now & ORDERS_DEVICE) {
    device_barrier_time = now;
    device_fence();
  }
}
EXPORT void simt_watch_simd(u32 simd) {
  settle();
  exchanges++;
  simd_time[simd] = ++now;
}

// One launch: begin, simt_check_entry in the place of `entry`, end. Ranges do not overlap; those of dynamic group memory
// count from its begin.
EXPORT void simt_check_begin(void (*entry)(Launch*, Worker*), const Range* given, u32 count, const Site* places,
                             u32 place_count, u32 wanted, u32 fill) {
  launch_entry = entry;
  range_count = count;
  ranges = (Range*)calloc(count + 1, sizeof(Range));
  order = (u32*)calloc(count + 1, sizeof(u32));
  for (u32 i = 0; i < count; i++) ranges[i] = given[i];
  sites = places;
  site_count = place_count;
  mode = wanted;
  poison = fill;
  fault_count = 0;
  suspects = barriers = exchanges = kept = unkept = 0;
  now = 0;
  running = reaching = placed = given_up = false;
  pending.bytes = 0;
  __builtin_memset(atomic_clocks, 0, sizeof atomic_clocks);
  shadows = (Shadow*)calloc(count + 1, sizeof(Shadow));
  traffic = (Traffic*)calloc(count + 1, sizeof(Traffic));
  for (u32 i = 0; i < count; i++) {
    u64 bytes = given[i].end - given[i].begin;
    bool local = is_group_memory(given[i].kind);
    if (given[i].kind == OTHER || given[i].kind == CONSTANT || !bytes) continue;
    shadows[i].granule = local ? 1 : 4;
    shadows[i].mapped = (bytes / shadows[i].granule + 1) * sizeof(Cell);
    shadows[i].cells = (Cell*)pages(shadows[i].mapped);
    if (local) shadows[i].written = (u32*)calloc(bytes, sizeof(u32));
    else shadows[i].lines = (u8*)calloc(bytes / LINE / 8 + 1, 1);
  }
  if (mode & COUNT) {
    requests = (Requests*)calloc(u64(kMaxThreads) / SIMT_WIDTH * (site_count + 1), sizeof(Requests));
    occurrences = (u32*)calloc(u64(kMaxThreads) * (site_count + 1), sizeof(u32));
  }
}
EXPORT void simt_check_entry(Launch* launch, Worker* worker) {
  if (__builtin_setjmp(frame))
    given_up = true;
  else
    launch_entry(launch, worker);
}

// Copies out faults (room for 64), one Traffic for each range, and [barriers, exchanges, suspects, kept, unkept, given up].
EXPORT u32 simt_check_end(Found* out, Traffic* totals, u64* sums) {
  settle();
  for (u32 i = 0; i < range_count; i++) {
    u64 lines = 0;
    if (shadows[i].lines) {
      u64 bytes = (ranges[i].end - ranges[i].begin) / LINE / 8 + 1;
      for (u64 j = 0; j < bytes; j++) lines += u64(__builtin_popcount(shadows[i].lines[j]));
    }
    traffic[i].lines = lines;
    totals[i] = traffic[i];
    if (shadows[i].cells) munmap(shadows[i].cells, shadows[i].mapped);
    free(shadows[i].written);
    free(shadows[i].lines);
  }
  free(shadows);
  free(traffic);
  free(ranges);
  free(order);
  running = false;
  if (mode & COUNT) {
    for (u64 i = 0; i < u64(kMaxThreads) / SIMT_WIDTH * site_count; i++) free(requests[i].list);
    free(requests);
    free(occurrences);
  }
  for (u32 i = 0; i < fault_count; i++) out[i] = faults[i];
  u64 all[] = {barriers, exchanges, suspects, kept, unkept, given_up};
  for (u32 i = 0; i < 6; i++) sums[i] = all[i];
  return fault_count;
}
