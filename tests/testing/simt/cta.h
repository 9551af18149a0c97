// The emulated machine: one CTA, its threads as fibers, its shared memory, and the scheduler that picks who runs next.
// Used by every primitive of the emulator; tests use launch.h.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "tests/testing/simt/fiber.h"
#include "tests/testing/simt/options.h"
#include "tests/testing/simt/shared_memory.h"

namespace rondo::simt {

struct CopyQueue;   // copies.h
struct WgmmaQueue;  // wgmma.h
struct WgmmaProduct;

inline constexpr int kWarp = 32;
inline constexpr int kWarpgroup = 128;

// A warp's or warpgroup's meeting point: the last to arrive acts for all.
struct Rendezvous {
  int arrived = 0;
  uint64_t generation = 0;
  CallSite site;
  std::array<void*, kWarpgroup> arguments = {};
};

struct NamedBarrier {
  int arrived = 0;
  uint64_t generation = 0;
};

// mbarrier.h
struct MbarrierState {
  int count = 0;      // arrivals that end a phase
  int pending = 0;    // of them, still to come
  int64_t bytes = 0;  // expected and not yet here
  uint64_t phase = 0;
};

struct Thread {
  int index = 0;
  Fiber fiber;
  CallSite site;                   // of the last wait
  const uint64_t* word = nullptr;  // blocked while *word == value
  uint64_t value = 0;
  uint32_t epoch = 0;                 // CTA-wide barriers passed: what the race detector calls time
  uint32_t votes = 0;                 // CtaSyncOr calls
  std::shared_ptr<CopyQueue> copies;  // cp.async
  std::shared_ptr<WgmmaQueue> wgmmas;
  bool runnable() const { return !fiber.done() && (word == nullptr || *word != value); }
};

// How soon an engine is done: at once; after others have run for a while; or when nobody else can do anything.
enum class Delay { kNone, kSome, kMost };

// Work of an engine beside the threads: a TMA copy, the tensor core.
struct Engine {
  uint64_t due = 0;  // in scheduler steps
  std::function<void()> run;
};

class Cta {
 public:
  Cta(int index, int count, int threads, const Options& options, SharedMemory* shared, Counters* counters,
      uint64_t seed);

  // Runs `body` once a thread. Returns what went wrong, or an empty string.
  std::string Run(Stacks* stacks, const std::function<void()>& body);

  int index() const { return index_; }
  int count() const { return count_; }
  int threads() const { return static_cast<int>(threads_.size()); }
  const Options& options() const { return options_; }
  SharedMemory& shared() { return *shared_; }
  Counters& counters() { return *counters_; }

  // Called by fibers.
  Thread& self() { return *running_; }
  Rendezvous& warp() { return warps_[running_->index / kWarp]; }
  Rendezvous& warpgroup() { return warpgroups_[running_->index / kWarpgroup]; }
  NamedBarrier& barrier(int id) { return barriers_[id]; }
  bool& vote(int i) { return votes_[i]; }  // CtaSyncOr's, used in turn
  std::deque<MbarrierState>& mbarriers() { return mbarriers_; }
  // Products the tensor core has not finished.
  std::vector<std::shared_ptr<WgmmaProduct>>& wgmmas() { return products_; }
  // Returns once *word differs from `value`.
  void WaitWhile(const uint64_t* word, uint64_t value, CallSite site);
  // Under the random and greedy schedules, lets somebody else run here now and then.
  void Preempt();
  // Ends the launch with this message, the thread and the site. Does not return.
  [[noreturn]] void Fail(const std::string& message, CallSite site);
  // Hands work to an engine.
  void Enqueue(std::function<void()> run, Delay delay);
  uint64_t Random(uint64_t below);

 private:
  int PickWarp();
  bool RunWarp(int warp, bool descending);
  bool RunEngines(bool idle);
  std::string DescribeDeadlock() const;

  int index_;
  int count_;
  const Options& options_;
  SharedMemory* shared_;
  Counters* counters_;
  uint64_t random_;
  std::vector<Thread> threads_;
  std::vector<Rendezvous> warps_, warpgroups_;
  std::array<NamedBarrier, 16> barriers_ = {};  // as many as the hardware has
  std::array<bool, 2> votes_ = {};
  std::deque<MbarrierState> mbarriers_;  // stay where they are: threads wait for their phase
  std::vector<std::shared_ptr<WgmmaProduct>> products_;
  std::vector<Engine> engines_;
  uint64_t now_ = 0;
  int turn_ = 0;
  Thread* running_ = nullptr;
  std::string fault_;
};

// The CTA whose fiber is running.
Cta& ThisCta();

// Meets the other `members` of a warp or warpgroup at `site`; the last to arrive calls action(arguments of all).
// Members that come from different sites are a divergent collective and end the launch.
template <class Argument, class Action>
void Collective(Rendezvous& meeting, int member, int members, Argument* argument, CallSite site, Action action) {
  Cta& cta = ThisCta();
  if (meeting.arrived == 0) meeting.site = site;
  if (!(meeting.site == site)) {
    cta.Fail("divergent collective: others of the warp are at " + meeting.site.ToString(), site);
  }
  meeting.arguments[member] = argument;
  if (++meeting.arrived == members) {
    action(reinterpret_cast<Argument**>(meeting.arguments.data()));
    meeting.arrived = 0;
    ++meeting.generation;
    return;
  }
  cta.WaitWhile(&meeting.generation, meeting.generation, site);
}

template <class Argument, class Action>
void WarpCollective(Argument* argument, CallSite site, Action action) {
  Cta& cta = ThisCta();
  Collective(cta.warp(), cta.self().index % kWarp, kWarp, argument, site, action);
}

template <class Argument, class Action>
void WarpgroupCollective(Argument* argument, CallSite site, Action action) {
  Cta& cta = ThisCta();
  Collective(cta.warpgroup(), cta.self().index % kWarpgroup, kWarpgroup, argument, site, action);
}

}  // namespace rondo::simt
