#include "tests/worker/session/law_jobs.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace rondo::testing {
namespace {

StartJob Job(const std::string& id, int64_t prompt, int64_t max_tokens) {
  StartJob job;
  job.id = id;
  job.prompt = RandomPrompt(prompt, 1000 + prompt);
  job.max_tokens = max_tokens;
  job.request_number = 7 + prompt;
  return job;
}

StartJob Sampled(StartJob job, SamplingParams sampling) {
  job.sampling = sampling;
  return job;
}

StartJob Forced(StartJob job, int64_t tokens) {
  job.forced_tokens = RandomPrompt(tokens, 77);
  job.max_tokens = tokens;
  return job;
}

}  // namespace

std::vector<int32_t> RandomPrompt(int64_t tokens, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> prompt(tokens);
  for (int32_t& id : prompt) id = static_cast<int32_t>(random() % 256);
  return prompt;
}

std::vector<StartJob> CuratedJobs() {
  return {
      Job("one", 1, 5),
      Sampled(Job("two-sampled", 2, 6), {.temperature = 1.0f, .seed = 3}),
      Sampled(Job("255-top-k", 255, 4), {.temperature = 0.7f, .top_k = 20, .seed = 4}),  // decode enters block 1
      Job("256", 256, 3),
      Forced(Job("257-forced", 257, 0), 5),
      Sampled(Job("511-top-p", 511, 4), {.temperature = 1.3f, .top_p = 0.8f, .seed = 5}),
      Job("512", 512, 1),
      Sampled(Job("513-min-p", 513, 4), {.temperature = 2.0f, .min_p = 0.02f, .seed = 6}),
      Sampled(Job("1300-all", 1300, 4),
              {.temperature = 0.9f, .top_k = 50, .top_p = 0.95f, .min_p = 0.01f, .seed = 0xffffffffffffffff}),
      Job("2000", 2000, 4),
  };
}

std::vector<StartJob> FewJobs() {
  return {
      Job("one", 1, 3),
      Sampled(Job("255-sampled", 255, 4), {.temperature = 0.8f, .top_k = 40, .seed = 9}),
      Job("1100", 1100, 3),
  };
}

std::vector<StartJob> RandomJobs(int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<StartJob> jobs;
  for (int i = 0; i < count; ++i) {
    // As many short as long ones.
    const int64_t longest = random() % 2 == 0 ? 300 : 2000;
    StartJob job;
    job.id = absl::StrCat("random-", seed, "-", i);
    job.prompt = RandomPrompt(1 + static_cast<int64_t>(random() % longest), random());
    job.max_tokens = 1 + static_cast<int64_t>(random() % 8);
    job.request_number = random();
    if (random() % 2 == 0) {
      job.sampling.temperature = 0.25f * static_cast<float>(1 + random() % 8);
      if (random() % 2 == 0) job.sampling.top_k = static_cast<int32_t>(1 + random() % 100);
      if (random() % 2 == 0) job.sampling.top_p = 0.1f * static_cast<float>(5 + random() % 5);
      if (random() % 2 == 0) job.sampling.min_p = 0.01f * static_cast<float>(random() % 10);
      job.sampling.seed = random();
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

absl::StatusOr<StartJob> WithStop(const TestModel& model, StartJob job, const JobRecord& record) {
  const auto printable = [](std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
  };
  for (size_t i = 1; i + 1 < record.tokens.size(); ++i) {
    const std::string_view text = model.tokenizer->TokenBytes(record.tokens[i]);
    if (!printable(text)) continue;
    absl::StrAppend(&job.id, "-stop");
    job.stops = {std::string("no such text"), std::string(text)};
    return job;
  }
  return absl::FailedPreconditionError(absl::StrCat("job ", job.id, " said nothing printable"));
}

absl::StatusOr<Records> RunOneByOne(const TestModel& model, const SessionOptions& options,
                                    const std::vector<StartJob>& jobs) {
  SessionGroup group(model, options);
  Records records;
  for (const StartJob& job : jobs) {
    absl::StatusOr<JobRecord> record = group.RunJob(job);
    if (!record.ok()) return record.status();
    records[job.id] = *std::move(record);
  }
  return records;
}

absl::StatusOr<Records> RunTogether(const TestModel& model, const SessionOptions& options,
                                    const std::vector<StartJob>& jobs) {
  SessionGroup group(model, options);
  for (const StartJob& job : jobs) group.Push(job);
  Records records;
  for (const StartJob& job : jobs) {
    absl::StatusOr<JobRecord> record = group.WaitForEnd(job.id);
    if (!record.ok()) return record.status();
    records[job.id] = *std::move(record);
  }
  return records;
}

std::string Differences(const Records& got, const Records& want) {
  std::string text;
  for (const auto& [id, record] : got) {
    const auto found = want.find(id);
    if (found == want.end()) {
      absl::StrAppend(&text, "  ", id, ": not expected\n");
      continue;
    }
    const JobRecord& due = found->second;
    if (record.ends != 1) absl::StrAppend(&text, "  ", id, ": ended ", record.ends, " times\n");
    if (record.result.digest != due.result.digest) {
      absl::StrAppend(&text, "  ", id, ": digest ", record.result.digest, " instead of ", due.result.digest, "\n");
    }
    if (record.tokens != due.tokens) absl::StrAppend(&text, "  ", id, ": other tokens\n");
    if (record.result.finish_reason != due.result.finish_reason) {
      absl::StrAppend(&text, "  ", id, ": ", record.result.finish_reason, " instead of ", due.result.finish_reason,
                      "\n");
    }
  }
  return text;
}

std::string Describe(const SessionOptions& options) {
  std::string text = absl::StrCat("W=", options.world, " threads=", options.threads, " chunk=", options.prefill_chunk, " ", Sv(Name(options.strategy)),
                                  " ", Sv(Name(options.compute)), " kv=", Sv(Name(options.kv_type)), " kernels=");
  for (const KernelSet& set : options.kernels) absl::StrAppend(&text, Sv(set.name), ";");
  return text;
}

absl::StatusOr<Records> Baseline(const TestModel& model, ComputeMode compute, KvType kv_type,
                                 const std::vector<StartJob>& jobs) {
  SessionOptions options;
  options.compute = compute;
  options.kv_type = kv_type;
  return RunOneByOne(model, options, jobs);
}

}  // namespace rondo::testing
