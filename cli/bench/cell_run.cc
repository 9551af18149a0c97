#include "cli/bench/cell_run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cli/json_out.h"

namespace rondo::cli {
namespace {

StepRun ReadStep(const Json& json) {
  return {json.at("begin_us").get<double>(), json.at("posted_us").get<double>(),    json.at("compute_us").get<double>(),
          json.at("wait_us").get<double>(),  json.at("sent_bytes").get<uint64_t>(), json.at("everybody").get<bool>()};
}

RankRun ReadRank(const Json& json) {
  RankRun rank;
  json.at("rank").get_to(rank.rank);
  json.at("host").get_to(rank.host);
  json.at("seconds").get_to(rank.seconds);
  json.at("cpu_seconds").get_to(rank.cpu_seconds);
  json.at("base_bytes").get_to(rank.base_bytes);
  json.at("peak_bytes").get_to(rank.peak_bytes);
  json.at("sent_bytes").get_to(rank.sent_bytes);
  json.at("skipped_steps").get_to(rank.skipped_steps);
  for (const Json& step : json.at("steps")) rank.steps.push_back(ReadStep(step));
  return rank;
}

CellRun ReadRun(const Json& json) {
  CellRun run;
  json.at("tokens").get_to(run.tokens);
  json.at("workers").get_to(run.workers);
  json.at("threads").get_to(run.threads);
  json.at("model").get_to(run.model);
  json.at("heads").get_to(run.heads);
  json.at("kv_type").get_to(run.kv_type);
  json.at("kernels").get_to(run.kernels);
  json.at("transport").get_to(run.transport);
  json.at("strategy").get_to(run.strategy);
  json.at("digest").get_to(run.digest);
  json.at("attention_flops").get_to(run.attention_flops);
  json.at("seconds").get_to(run.seconds);
  json.at("cpu_seconds").get_to(run.cpu_seconds);
  for (const Json& rank : json.at("ranks")) run.ranks.push_back(ReadRank(rank));
  return run;
}

}  // namespace

absl::StatusOr<CellRun> ParseCellRun(std::string_view json) {
  try {
    CellRun run = ReadRun(Json::parse(json));
    if (run.digest.empty()) return absl::InternalError("scale_rank: digest is empty");
    if (static_cast<int>(run.ranks.size()) != run.workers) {
      return absl::InternalError(
          absl::StrCat("scale_rank: ranks has ", run.ranks.size(), " elements, workers is ", run.workers));
    }
    return run;
  } catch (const Json::exception& error) {
    return absl::InternalError(absl::StrCat("scale_rank: not the object that was expected: ", error.what()));
  }
}

WaitSplit SplitWait(const CellRun& run, int rank, size_t step) {
  const int ranks = static_cast<int>(run.ranks.size());
  const StepRun& own = run.ranks[rank].steps[step];
  const double wait_begin = own.begin_us + own.compute_us;
  double posted = wait_begin;
  for (int peer = 0; peer < ranks; ++peer) {
    const bool awaited = own.everybody || peer == (rank + ranks - 1) % ranks;
    const std::vector<StepRun>& steps = run.ranks[peer].steps;
    if (awaited && step < steps.size()) posted = std::max(posted, steps[step].posted_us);
  }
  const double late = std::min(posted - wait_begin, own.wait_us);
  return {late, own.wait_us - late};
}

}  // namespace rondo::cli
