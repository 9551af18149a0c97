#include "tests/testing/simt/cta.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/check.h"

namespace rondo::simt {
namespace {

thread_local Cta* g_cta = nullptr;

// An engine that takes some time takes at least so many scheduler steps (turns of a warp), and up to twice that.
constexpr uint64_t kSomeSteps = 32;
constexpr uint64_t kNever = UINT64_MAX;  // until nobody else can do anything

}  // namespace

Cta& ThisCta() { return *g_cta; }

std::string CallSite::ToString() const {
  std::string_view file = where.file_name();
  file.remove_prefix(std::min(file.size(), file.rfind('/') + 1));
  return std::string(what) + " at " + std::string(file) + ":" + std::to_string(where.line());
}

Cta::Cta(int index, int count, int threads, const Options& options, SharedMemory* shared, Counters* counters,
         uint64_t seed)
    : index_(index),
      count_(count),
      options_(options),
      shared_(shared),
      counters_(counters),
      random_(seed * 0x9E3779B97F4A7C15u | 1),
      threads_(threads),
      warps_((threads + kWarp - 1) / kWarp),
      warpgroups_((threads + kWarpgroup - 1) / kWarpgroup) {
  RONDO_CHECK(threads % kWarp == 0);
}

std::string Cta::Run(Stacks* stacks, const std::function<void()>& body) {
  g_cta = this;
  shared_->Poison();
  for (int i = 0; i < threads(); ++i) {
    threads_[i].index = i;
    threads_[i].fiber.Start(stacks->stack(i), stacks->bytes_each(), body);
  }
  const int warps = static_cast<int>(warps_.size());
  while (fault_.empty()) {
    if (std::all_of(threads_.begin(), threads_.end(), [](const Thread& t) { return t.fiber.done(); })) break;
    // Two rounds with nobody able to run, engines included, and nobody ever will.
    bool progress = false;
    for (int turn = 0; turn < warps && fault_.empty(); ++turn) {
      const int warp = PickWarp();
      progress |= RunWarp(warp, options_.schedule == Schedule::kDescending);
      if (options_.schedule == Schedule::kGreedy) {
        while (fault_.empty() && RunWarp(warp, false)) progress = true;
      }
      ++now_;
      progress |= RunEngines(false);
    }
    if (fault_.empty() && !progress && !RunEngines(true)) {
      const bool anyone = std::any_of(threads_.begin(), threads_.end(), [](const Thread& t) { return t.runnable(); });
      if (!anyone) fault_ = DescribeDeadlock();
    }
  }
  g_cta = nullptr;
  return fault_;
}

int Cta::PickWarp() {
  const int warps = static_cast<int>(warps_.size());
  const int turn = turn_++ % warps;
  switch (options_.schedule) {
    case Schedule::kAscending:
      return turn;
    case Schedule::kDescending:
      return warps - 1 - turn;
    case Schedule::kRandom:
    case Schedule::kGreedy:
      return static_cast<int>(Random(warps));
  }
  return 0;
}

bool Cta::RunWarp(int warp, bool descending) {
  bool ran = false;
  for (int i = 0; i < kWarp && fault_.empty(); ++i) {
    Thread& thread = threads_[warp * kWarp + (descending ? kWarp - 1 - i : i)];
    if (!thread.runnable()) continue;
    ran = true;
    running_ = &thread;
    ++counters_->switches;
    thread.fiber.Resume();
  }
  return ran;
}

bool Cta::RunEngines(bool idle) {
  if (engines_.empty()) return false;
  if (idle) {
    // Nobody can run: time passes until the next engine is done. Where all have time, one of them is done now.
    uint64_t next = kNever;
    for (const Engine& e : engines_) next = std::min(next, e.due);
    if (next == kNever) next = engines_[Random(engines_.size())].due = now_;
    now_ = std::max(now_, next);
  }
  bool ran = false;
  for (size_t i = 0; i < engines_.size();) {
    if (engines_[i].due > now_) {
      ++i;
      continue;
    }
    const auto run = std::move(engines_[i].run);
    engines_.erase(engines_.begin() + static_cast<ptrdiff_t>(i));
    run();
    ran = true;
  }
  return ran;
}

void Cta::WaitWhile(const uint64_t* word, uint64_t value, CallSite site) {
  Thread& thread = self();
  thread.site = site;
  thread.word = word;
  thread.value = value;
  while (*word == value) thread.fiber.Suspend();
  thread.word = nullptr;
}

void Cta::Preempt() {
  if (options_.schedule != Schedule::kRandom && options_.schedule != Schedule::kGreedy) return;
  if (Random(4) == 0) self().fiber.Suspend();
}

void Cta::Fail(const std::string& message, CallSite site) {
  if (fault_.empty()) {
    fault_ = message + " [" + site.ToString() + ", CTA " + std::to_string(index_) + ", thread " +
             std::to_string(self().index) + "]";
  }
  for (;;) self().fiber.Suspend();
}

void Cta::Enqueue(std::function<void()> run, Delay delay) {
  uint64_t due = kNever;
  if (delay == Delay::kNone) due = now_ + Random(2);
  if (delay == Delay::kSome) due = now_ + kSomeSteps + Random(kSomeSteps);
  engines_.push_back({due, std::move(run)});
}

uint64_t Cta::Random(uint64_t below) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return (random_ >> 11) % below;
}

std::string Cta::DescribeDeadlock() const {
  std::map<std::string, int> waiting;
  int ended = 0;
  for (const Thread& thread : threads_) {
    if (thread.fiber.done()) {
      ++ended;
    } else {
      ++waiting[thread.site.ToString()];
    }
  }
  std::string text = "deadlock in CTA " + std::to_string(index_) + ":";
  for (const auto& [site, count] : waiting) text += " " + std::to_string(count) + " threads wait in " + site + ";";
  return text + " " + std::to_string(ended) + " threads have ended";
}

}  // namespace rondo::simt
