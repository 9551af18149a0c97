// Cancellation and failure in the middle of jobs: whatever the moment, nothing hangs, and what runs next has the bits
// it would have had.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/testing/faulty_transport.h"
#include "tests/worker/session/law_jobs.h"
#include "tests/worker/session/scripted_transport.h"

namespace rondo::testing {
namespace {

constexpr int kLayers = 5;  // of the tiny model

const TestModel& Model() {
  static const TestModel model = TinyModel(false).value();
  return model;
}

StartJob Victim(int64_t prompt) {
  StartJob job;
  job.id = "victim";
  job.prompt = RandomPrompt(prompt, 11);
  job.max_tokens = 12;
  return job;
}

StartJob Next() {
  StartJob job;
  job.id = "next";
  job.prompt = RandomPrompt(530, 12);
  job.max_tokens = 3;
  job.sampling.temperature = 1;
  job.sampling.seed = 1;
  return job;
}

// How many transport calls each rank makes for a whole job.
std::vector<int64_t> CallsOf(SessionOptions options, const StartJob& job) {
  std::vector<ScriptedTransport*> transports(options.world);
  options.decorate = [&](int rank, Transport& inner) {
    auto transport = std::make_unique<ScriptedTransport>(inner, [](int64_t) {});
    transports[rank] = transport.get();
    return transport;
  };
  SessionGroup group(Model(), options);
  EXPECT_TRUE(group.RunJob(job).ok());
  // Rank 0 reports the end when the others may have a call to go: those are not counted, which is near enough.
  std::vector<int64_t> calls;
  for (const ScriptedTransport* transport : transports) calls.push_back(transport->calls());
  return calls;
}

bool IsPrefix(const std::vector<int32_t>& part, const std::vector<int32_t>& whole) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

// Every rank has given the memory of its jobs back, at the latest when it has had time to.
bool AllMemoryIsBack(SessionGroup& group) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  for (int rank = 0; rank < group.world(); ++rank) {
    while (group.loop(rank).kv_used_bytes() != 0) {
      if (absl::Now() > deadline) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  return true;
}

// Flags and commands reach every rank at its own time, as they do from a coordinator; one rank is slow; the moment is a
// call of rank 0, half of them in the prefill and half in the decode.
TEST(Cancel, AtAnyPointLeavesTheNextJobItsBits) {
  const StartJob next = Next();
  int cancelled_in_prefill = 0, cancelled_in_decode = 0;
  for (int seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    SessionOptions options;
    options.world = static_cast<int>(2 + random() % 4);
    options.prefill_chunk = std::array<int64_t, 3>{64, 256, 0}[random() % 3];
    const StartJob victim = Victim(std::array<int64_t, 2>{300, 900}[random() % 2]);

    static std::map<std::string, std::pair<int64_t, int64_t>> known;  // prefill and whole job
    auto& [prefill_calls, all_calls] =
        known[absl::StrCat(options.world, "/", options.prefill_chunk, "/", victim.prompt.size())];
    if (all_calls == 0) {
      StartJob only_prefill = victim;
      only_prefill.max_tokens = 1;
      prefill_calls = CallsOf(options, only_prefill)[0];
      all_calls = CallsOf(options, victim)[0];
    }
    static std::map<size_t, Records> baselines;
    Records& want = baselines[victim.prompt.size()];
    if (want.empty()) want = Baseline(Model(), ComputeMode::kF32, KvType::kF32, {victim, next}).value();

    const int64_t moment = seed % 2 == 0 ? static_cast<int64_t>(random() % prefill_calls)
                                         : prefill_calls + static_cast<int64_t>(random() % (all_calls - prefill_calls));
    const int slow_rank = static_cast<int>(random() % options.world);
    absl::Notification reached;
    options.decorate = [&](int rank, Transport& inner) {
      const auto before = [&, rank, delays = std::mt19937_64(seed + rank)](int64_t call) mutable {
        if (rank == slow_rank) absl::SleepFor(absl::Microseconds(static_cast<int64_t>(delays() % 300)));
        if (rank == 0 && call == moment) reached.Notify();
      };
      return std::make_unique<ScriptedTransport>(inner, before);
    };

    SessionGroup group(Model(), options);
    group.Push(victim);
    reached.WaitForNotificationWithTimeout(absl::Minutes(1));
    ASSERT_TRUE(reached.HasBeenNotified()) << "seed " << seed;

    std::vector<int> ranks(options.world);
    for (int r = 0; r < options.world; ++r) ranks[r] = r;
    const auto at_every_rank = [&](const std::function<void(int)>& act) {
      std::shuffle(ranks.begin(), ranks.end(), random);
      for (const int rank : ranks) {
        absl::SleepFor(absl::Microseconds(static_cast<int64_t>(random() % 500)));
        act(rank);
      }
    };
    switch (random() % 4) {
      case 0:  // the command alone
        break;
      case 1:  // a flag that only one rank sees in time
        group.FlagCancelled(ranks[random() % ranks.size()], victim.id);
        break;
      default:
        at_every_rank([&](int rank) { group.FlagCancelled(rank, victim.id); });
    }
    const bool next_first = random() % 2 == 0;
    const uint64_t first = group.NextNumber(), second = group.NextNumber();
    const Command cancel{next_first ? second : first, CancelJob{victim.id, "test"}};
    const Command start{next_first ? first : second, next};
    at_every_rank([&](int rank) { group.PushTo(rank, next_first ? start : cancel); });
    at_every_rank([&](int rank) { group.PushTo(rank, next_first ? cancel : start); });

    const absl::StatusOr<JobRecord> ended = group.WaitForEnd(victim.id);
    ASSERT_TRUE(ended.ok()) << "seed " << seed << ": " << ended.status();
    const absl::StatusOr<JobRecord> after = group.WaitForEnd(next.id);
    ASSERT_TRUE(after.ok()) << "seed " << seed << ": " << after.status();
    EXPECT_EQ(Differences({{next.id, *after}}, want), "") << "seed " << seed << " " << Describe(options);
    const JobRecord victim_now = *group.WaitForEnd(victim.id);
    EXPECT_EQ(victim_now.ends, 1) << "seed " << seed;
    if (victim_now.result.finish_reason == "cancelled") {
      EXPECT_TRUE(IsPrefix(victim_now.tokens, want.at(victim.id).tokens)) << "seed " << seed;
      ++(victim_now.tokens.empty() ? cancelled_in_prefill : cancelled_in_decode);
    } else {
      EXPECT_EQ(Differences({{victim.id, victim_now}}, want), "") << "seed " << seed;
    }
    EXPECT_TRUE(AllMemoryIsBack(group)) << "seed " << seed;
    if (HasFailure()) return;
  }
  std::printf("cancelled in prefill: %d, in decode: %d\n", cancelled_in_prefill, cancelled_in_decode);
  EXPECT_GT(cancelled_in_prefill, 10);
  EXPECT_GT(cancelled_in_decode, 10);
}

// Rank 0 is flagged in the first layer of a long prefill in one piece: the whole ring stops after the next layer, not
// at the end of the prompt. Counted in calls: a layer takes rank 0 two posts and two waits a hop.
TEST(Cancel, StopsWithinALayer) {
  SessionOptions options;
  options.world = 4;
  const int64_t layer_calls = 4 * (options.world - 1);
  const int64_t moment = 5;
  ScriptedTransport* leader = nullptr;
  SessionGroup* running = nullptr;
  absl::Notification made;
  options.decorate = [&](int rank, Transport& inner) {
    auto transport = std::make_unique<ScriptedTransport>(inner, [&, rank](int64_t call) {
      if (rank != 0 || call != moment) return;
      made.WaitForNotification();
      running->FlagCancelled(0, "victim");
    });
    if (rank == 0) leader = transport.get();
    return transport;
  };
  SessionGroup group(Model(), options);
  running = &group;
  made.Notify();
  const absl::StatusOr<JobRecord> ended = group.RunJob(Victim(2000));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->result.finish_reason, "cancelled");
  EXPECT_LE(leader->calls(), moment + 2 * layer_calls + 2);
  EXPECT_LT(moment + 2 * layer_calls + 2, kLayers * layer_calls) << "the bound would show nothing";
}

TEST(Cancel, BeforeItsStartCommandArrives) {
  SessionOptions options;
  options.world = 3;
  SessionGroup group(Model(), options);
  for (int rank = 0; rank < 3; ++rank) group.FlagCancelled(rank, "victim");
  const absl::StatusOr<JobRecord> ended = group.RunJob(Victim(300));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->result.finish_reason, "cancelled");
  EXPECT_TRUE(ended->tokens.empty());
  group.Push(CancelJob{"victim", "late"});
  group.Push(CancelJob{"nobody", "never heard of"});
  const absl::StatusOr<JobRecord> next = group.RunJob(Next());
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->result.finish_reason, "length");
}

// A transport that fails in the middle of a job, loudly or just by going silent, ends every rank's Run with an error;
// a new group then gives the answer.
TEST(Failure, OfATransportEndsEveryRank) {
  const StartJob victim = Victim(900);
  const Records want = Baseline(Model(), ComputeMode::kF32, KvType::kF32, {victim}).value();
  for (int seed = 0; seed < 24; ++seed) {
    std::mt19937_64 random(seed);
    SessionOptions options;
    options.world = static_cast<int>(2 + random() % 4);
    options.prefill_chunk = std::array<int64_t, 3>{64, 256, 0}[random() % 3];
    const std::vector<int64_t> calls = CallsOf(options, victim);
    const int failing = static_cast<int>(random() % options.world);
    FaultPlan plan;
    plan.fail_at_call = static_cast<int64_t>(random() % calls[failing]);
    plan.abort_inner = seed % 2 == 0;
    options.decorate = [&](int rank, Transport& inner) -> std::unique_ptr<Transport> {
      if (rank != failing) return nullptr;
      return std::make_unique<FaultyTransport>(inner, plan);
    };
    {
      SessionGroup group(Model(), options);
      group.Push(victim);
      const auto statuses = group.WaitForAllReturned(absl::Seconds(60));
      ASSERT_TRUE(statuses.ok()) << "seed " << seed << ": " << statuses.status();
      for (const absl::Status& status : *statuses) EXPECT_FALSE(status.ok()) << "seed " << seed;
      EXPECT_EQ((*statuses)[failing], plan.failure) << "seed " << seed;
      EXPECT_FALSE(group.WaitForEnd(victim.id, absl::Seconds(1)).ok()) << "seed " << seed;
    }
    options.decorate = nullptr;
    const absl::StatusOr<Records> again = RunTogether(Model(), options, {victim});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(Differences(*again, want), "") << "seed " << seed;
  }
}

// A rank that freezes says nothing at all: the others give up after the ring's timeout.
TEST(Failure, OfAFrozenRankEndsTheOthers) {
  for (const int frozen : {0, 2}) {
    SessionOptions options;
    options.world = 3;
    options.ring_timeout = absl::Milliseconds(300);
    absl::Notification thaw;
    options.decorate = [&](int rank, Transport& inner) -> std::unique_ptr<Transport> {
      if (rank != frozen) return nullptr;
      return std::make_unique<ScriptedTransport>(inner, [&](int64_t call) {
        if (call == 20) thaw.WaitForNotification();
      });
    };
    SessionGroup group(Model(), options);
    group.Push(Victim(900));
    const std::string only_frozen = absl::StrCat("still running after the deadline: rank ", frozen);
    absl::StatusOr<std::vector<absl::Status>> statuses = absl::UnknownError("");
    for (int tenths = 0; tenths < 600 && statuses.status().message() != only_frozen; ++tenths) {
      statuses = group.WaitForAllReturned(absl::Milliseconds(100));
    }
    EXPECT_EQ(statuses.status().message(), only_frozen);
    thaw.Notify();
    statuses = group.WaitForAllReturned(absl::Seconds(60));
    ASSERT_TRUE(statuses.ok()) << statuses.status();
    for (const absl::Status& status : *statuses) EXPECT_FALSE(status.ok());
  }
}

// The coordinator's connection ends while jobs run.
TEST(Failure, ClosedQueuesEndRunningJobs) {
  SessionOptions options;
  options.world = 3;
  options.prefill_chunk = 64;
  SessionGroup group(Model(), options);
  group.Push(Victim(2000));
  while (group.loop(1).kv_used_bytes() == 0) absl::SleepFor(absl::Microseconds(100));
  group.Stop();
  const auto statuses = group.WaitForAllReturned(absl::Seconds(60));
  ASSERT_TRUE(statuses.ok()) << statuses.status();
  for (const absl::Status& status : *statuses) EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace rondo::testing
