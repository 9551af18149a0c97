// The law: the bits of an answer depend on the request, the model and the mode, and on nothing else. Digests of whole
// jobs on a tiny random Llama are compared over everything that a schedule may choose.
// RONDO_LAW_CASES=N tries N random settings (the default is a handful).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/attention/factories.h"
#include "kernels/cpu/dense/factories.h"
#include "tests/worker/session/broken_attention.h"
#include "tests/worker/session/law_jobs.h"

namespace rondo::testing {
namespace {

constexpr int kWorlds[] = {1, 2, 3, 4, 5, 7, 8};
constexpr int64_t kChunks[] = {64, 256, 0};

const TestModel& Model(ComputeMode compute) {
  static const TestModel plain = TinyModel(false).value();
  static const TestModel quantised = TinyModel(true).value();
  return compute == ComputeMode::kQ8 ? quantised : plain;
}

// The CPU family: every set this host runs but ref, whose bits are its own, and the sixteen-lane algorithm in two
// eight-lane halves where the registry cannot offer AVX-512 itself.
std::vector<KernelSet> CpuFamily() {
  std::vector<KernelSet> sets = HostKernels();
  std::erase_if(sets, [](const KernelSet& set) { return set.name == "ref"; });
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    sets.push_back({"wide", WideAttention(), WideDense()});
  }
  return sets;
}

// CuratedJobs and one with stop strings.
std::vector<StartJob> JobsWithStop(ComputeMode compute, KvType kv_type) {
  std::vector<StartJob> jobs = CuratedJobs();
  StartJob talker;
  talker.id = "talker";
  talker.prompt = RandomPrompt(300, 5);
  talker.max_tokens = 24;
  const Records said = Baseline(Model(compute), compute, kv_type, {talker}).value();
  StartJob stops = WithStop(Model(compute), talker, said.at("talker")).value();
  jobs.push_back(stops);
  return jobs;
}

void ExpectSame(const SessionOptions& options, const std::vector<StartJob>& jobs, const Records& want) {
  const absl::StatusOr<Records> got = RunTogether(Model(options.compute), options, jobs);
  ASSERT_TRUE(got.ok()) << Describe(options) << ": " << got.status();
  EXPECT_EQ(Differences(*got, want), "") << Describe(options);
}

TEST(Law, WorkersThreadsAndChunks) {
  std::vector<StartJob> jobs = JobsWithStop(ComputeMode::kF32, KvType::kF32);
  const Records want = Baseline(Model(ComputeMode::kF32), ComputeMode::kF32, KvType::kF32, jobs).value();
  std::set<std::string> digests;
  for (const auto& [id, record] : want) digests.insert(record.result.digest);
  ASSERT_EQ(digests.size(), jobs.size()) << "different jobs with the same digest: the comparison would show nothing";
  ASSERT_EQ(want.at("talker-stop").result.finish_reason, "stop");

  std::mt19937 random(1);
  for (const int world : kWorlds) {
    for (const int threads : {1, 2}) {
      for (const int64_t chunk : kChunks) {
        SessionOptions options;
        options.world = world;
        options.threads = threads;
        options.prefill_chunk = chunk;
        options.strategy = (world + chunk / 64) % 2 == 0 ? RingStrategy::kPassKv : RingStrategy::kPassQ;
        std::shuffle(jobs.begin(), jobs.end(), random);
        // For the sake of time every job with one thread a rank, and every other one with two.
        const size_t count = threads == 1 ? jobs.size() : jobs.size() / 2;
        ExpectSame(options, {jobs.begin(), jobs.begin() + count}, want);
      }
    }
  }
}

// Each (compute, KV type) has digests of its own, and they are as independent of the rest.
TEST(Law, EveryModeAndKvType) {
  struct Setting {
    int world;
    int threads;
    int64_t chunk;
  };
  constexpr Setting kSettings[] = {{1, 2, 64}, {2, 1, 0}, {3, 2, 256}, {4, 1, 64}, {5, 2, 0}, {8, 1, 256}};
  std::set<std::string> digests;
  for (const ComputeMode compute : {ComputeMode::kF32, ComputeMode::kQ8}) {
    for (const KvType kv_type : {KvType::kF32, KvType::kBf16}) {
      const std::vector<StartJob> jobs = JobsWithStop(compute, kv_type);
      const Records want = Baseline(Model(compute), compute, kv_type, jobs).value();
      digests.insert(want.at("2000").result.digest);
      if (compute == ComputeMode::kF32 && kv_type == KvType::kF32) continue;  // above
      for (const Setting& setting : kSettings) {
        SessionOptions options;
        options.world = setting.world;
        options.threads = setting.threads;
        options.prefill_chunk = setting.chunk;
        options.strategy = setting.threads == 1 ? RingStrategy::kPassKv : RingStrategy::kPassQ;
        options.compute = compute;
        options.kv_type = kv_type;
        ExpectSame(options, jobs, want);
      }
    }
  }
  EXPECT_EQ(digests.size(), 4u) << "two modes gave the same digest: one of them was not in force";
}

TEST(Law, EveryKernelFamilyAndMixedRings) {
  for (const std::string& skipped : SkippedKernels()) std::printf("not tested here: %s\n", skipped.c_str());
  const std::vector<KernelSet> family = CpuFamily();
  for (const ComputeMode compute : {ComputeMode::kF32, ComputeMode::kQ8}) {
    const KvType kv_type = compute == ComputeMode::kF32 ? KvType::kBf16 : KvType::kF32;
    const std::vector<StartJob> jobs = FewJobs();
    const Records want = Baseline(Model(compute), compute, kv_type, jobs).value();
    SessionOptions options;
    options.compute = compute;
    options.kv_type = kv_type;
    for (const KernelSet& set : family) {
      options.kernels = {set};
      options.world = 1;
      options.threads = 2;
      options.prefill_chunk = 256;
      ExpectSame(options, jobs, want);
      options.world = 4;
      options.threads = 1;
      options.prefill_chunk = 0;
      ExpectSame(options, jobs, want);
    }
    options.kernels = family;
    options.world = 5;
    ExpectSame(options, jobs, want);
  }
}

TEST(Law, AloneAndBesideOthers) {
  const std::vector<StartJob> jobs = CuratedJobs();
  const Records want = Baseline(Model(ComputeMode::kF32), ComputeMode::kF32, KvType::kF32, jobs).value();
  SessionOptions options;
  options.world = 3;
  options.prefill_chunk = 64;
  const absl::StatusOr<Records> alone = RunOneByOne(Model(ComputeMode::kF32), options, jobs);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(Differences(*alone, want), "");

  // Jobs that come while others are in the middle of their prefill or decode.
  SessionGroup group(Model(ComputeMode::kF32), options);
  std::vector<StartJob> rest(jobs.begin(), jobs.end() - 2);
  group.Push(jobs[jobs.size() - 1]);
  group.Push(jobs[jobs.size() - 2]);
  Records got;
  for (const StartJob& job : rest) {
    const absl::StatusOr<JobRecord> record = group.RunJob(job);
    ASSERT_TRUE(record.ok()) << record.status();
    got[job.id] = *record;
  }
  for (size_t i = jobs.size() - 2; i < jobs.size(); ++i) got[jobs[i].id] = group.WaitForEnd(jobs[i].id).value();
  EXPECT_EQ(Differences(got, want), "");
}

TEST(Law, RingsSmallerThanTheGroup) {
  std::vector<StartJob> jobs;
  Records want;
  const std::vector<StartJob> few = FewJobs();
  const Records baseline = Baseline(Model(ComputeMode::kF32), ComputeMode::kF32, KvType::kF32, few).value();
  for (const int ring_size : {1, 2, 3, 4, 5, 0, 9}) {
    for (StartJob job : few) {
      const JobRecord& record = baseline.at(job.id);
      absl::StrAppend(&job.id, "-on-", ring_size);
      job.ring_size = ring_size;
      want[job.id] = record;
      jobs.push_back(std::move(job));
    }
  }
  std::mt19937 random(2);
  std::shuffle(jobs.begin(), jobs.end(), random);
  for (const int64_t chunk : {int64_t{256}, int64_t{0}}) {
    SessionOptions options;
    options.world = 5;
    options.prefill_chunk = chunk;
    const absl::StatusOr<Records> got = RunTogether(Model(ComputeMode::kF32), options, jobs);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(Differences(*got, want), "") << Describe(options);
    EXPECT_EQ(got->at("1100-on-2").result.kv_bytes_per_worker.size(), 2u);
    EXPECT_EQ(got->at("1100-on-9").result.kv_bytes_per_worker.size(), 5u);
    EXPECT_EQ(got->at("1100-on-1").result.exchanged_bytes, 0u);
  }
}

TEST(Law, RandomSettings) {
  const char* asked = std::getenv("RONDO_LAW_CASES");
  const int cases = asked == nullptr ? 6 : std::atoi(asked);
  const std::vector<KernelSet> family = CpuFamily();
  for (int i = 0; i < cases; ++i) {
    std::mt19937_64 random(i);
    SessionOptions options;
    options.world = static_cast<int>(1 + random() % 8);
    options.threads = static_cast<int>(1 + random() % 3);
    // Any size, not only whole blocks.
    options.prefill_chunk = random() % 3 == 0 ? 0 : static_cast<int64_t>(1 + random() % 900);
    options.compute = random() % 2 == 0 ? ComputeMode::kF32 : ComputeMode::kQ8;
    options.kv_type = random() % 2 == 0 ? KvType::kF32 : KvType::kBf16;
    options.strategy = random() % 2 == 0 ? RingStrategy::kPassKv : RingStrategy::kPassQ;
    options.kernels = {family[random() % family.size()], family[random() % family.size()]};
    std::vector<StartJob> jobs = RandomJobs(static_cast<int>(1 + random() % 4), i);
    const Records want = Baseline(Model(options.compute), options.compute, options.kv_type, jobs).value();
    for (StartJob& job : jobs) job.ring_size = static_cast<int>(random() % (options.world + 1));
    ASSERT_NO_FATAL_FAILURE(ExpectSame(options, jobs, want)) << "case " << i;
    if (HasFailure()) GTEST_FAIL() << "case " << i << ": " << Describe(options);
  }
}

// The digests of one job on W = 1, 2, 3, 4 and 8.
std::set<std::string> DigestsOverWorlds(const AttentionKernels& attention) {
  const std::vector<StartJob> jobs = {CuratedJobs().back()};
  std::set<std::string> digests;
  for (const int world : {1, 2, 3, 4, 8}) {
    SessionOptions options;
    options.world = world;
    options.kernels = {{"control", &attention, SelectKernels("").value().dense}};
    const Records got = RunTogether(Model(ComputeMode::kF32), options, jobs).value();
    digests.insert(got.at(jobs[0].id).result.digest);
  }
  return digests;
}

// Controls: the comparison notices the mildest breach of the merge order, and it is the order that it notices.
TEST(LawCanFail, MergingFromLeftToRightIsSeen) {
  const AttentionKernels& inner = *SelectKernels("").value().attention;
  const std::vector<StartJob> jobs = {CuratedJobs().back()};
  const Records want = Baseline(Model(ComputeMode::kF32), ComputeMode::kF32, KvType::kF32, jobs).value();

  const SelfMergingAttention tree(inner, SelfMergingAttention::Order::kTree);
  EXPECT_EQ(DigestsOverWorlds(tree), (std::set<std::string>{want.at(jobs[0].id).result.digest}));
  const SelfMergingAttention left_to_right(inner, SelfMergingAttention::Order::kLeftToRight);
  EXPECT_GT(DigestsOverWorlds(left_to_right).size(), 1u);
}

}  // namespace
}  // namespace rondo::testing
