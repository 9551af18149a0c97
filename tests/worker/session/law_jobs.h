// The jobs whose bits the law tests compare, what a group made of them, and how a group is described when it disagrees.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/testing/session_harness.h"

namespace rondo::testing {

// `tokens` ids below 256 (bytes) by seed.
std::vector<int32_t> RandomPrompt(int64_t tokens, uint64_t seed);

// 1 to 2,000 tokens around the edges of canonical blocks; greedy, sampled in several ways, forced, max_tokens 1. Ids
// are unique; none has stop strings, which depend on what the model says (see WithStop).
std::vector<StartJob> CuratedJobs();
// A few of them, for settings that cost more.
std::vector<StartJob> FewJobs();
// `count` more, by seed.
std::vector<StartJob> RandomJobs(int count, uint64_t seed);

// `job` with the text of one of the later printable tokens of `record` as its stop string, under id + "-stop". The
// record is of the same job without stops. FAILED_PRECONDITION if it said nothing printable.
absl::StatusOr<StartJob> WithStop(const TestModel& model, StartJob job, const JobRecord& record);

using Records = std::map<std::string, JobRecord>;  // by job id

// One group, one job after the other.
absl::StatusOr<Records> RunOneByOne(const TestModel& model, const SessionOptions& options,
                                    const std::vector<StartJob>& jobs);
// One group, all jobs at once, started in this order.
absl::StatusOr<Records> RunTogether(const TestModel& model, const SessionOptions& options,
                                    const std::vector<StartJob>& jobs);

// Empty, or what of `got` differs from `want` for the jobs in `got`: digests, tokens, reasons.
std::string Differences(const Records& got, const Records& want);

// "W=4 threads=2 chunk=64 f32 kv=bf16 kernels=avx2".
std::string Describe(const SessionOptions& options);

// What one worker with one thread and the host's best kernels makes of the jobs, the prompt in one piece.
absl::StatusOr<Records> Baseline(const TestModel& model, ComputeMode compute, KvType kv_type,
                                 const std::vector<StartJob>& jobs);

}  // namespace rondo::testing
