// What a test chooses about an emulated launch, and what the launch counts; used by launch.h and the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

namespace rondo::simt {

// Where in a kernel a primitive was called, and which.
struct CallSite {
  const char* what = "";
  std::source_location where = {};
  bool operator==(const CallSite& o) const {
    return where.line() == o.where.line() && where.column() == o.where.column() && what == o.what;
  }
  std::string ToString() const;  // "CtaSync at attend_mma.cuh:120"
};

// Who runs next. A race hides from most of them: greedy, where one warp runs as far ahead as it can, finds overwritten
// buffers; descending finds what leans on low threads going first.
enum class Schedule { kAscending, kDescending, kRandom, kGreedy };

// Global memory a kernel may touch.
struct GlobalRange {
  const void* begin = nullptr;
  size_t bytes = 0;
  bool writable = false;
  const char* name = "";
};

struct Options {
  Schedule schedule = Schedule::kAscending;
  uint64_t seed = 1;
  bool slow_copies = true;               // land at the last moment they may; else at the first
  bool slow_tensor_core = true;          // the same for wgmma
  std::vector<GlobalRange> memory = {};  // empty: not checked
  size_t stack_bytes = 64 << 10;
};

struct Counters {
  uint64_t mma = 0;
  uint64_t wgmma = 0;
  uint64_t ldmatrix = 0;
  uint64_t bank_conflicts = 0;  // additional passes of ldmatrix through shared memory
  uint64_t copied_bytes = 0;    // by cp.async and TMA, zero fill not counted
  uint64_t shuffles = 0;
  uint64_t barriers = 0;  // arrivals of threads
  uint64_t switches = 0;  // of fibers
};

}  // namespace rondo::simt
