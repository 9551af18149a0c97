#include "cli/bench/scale_table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/show.h"

namespace rondo::cli {
namespace {

// More steps than this are a model's layers: their sum is in the main table.
constexpr size_t kMostShownSteps = 16;

std::string Percent(double share) { return absl::StrFormat("%.1f", 100 * share); }

std::string Seconds(double s) { return absl::StrFormat(s < 0.1 ? "%.4f" : s < 10 ? "%.3f" : "%.2f", s); }

Json SharesJson(const TimeShares& shares) {
  return Json{{"compute", shares.compute}, {"exposed_transfer", shares.transfer}, {"wait", shares.late}};
}

Json RanksJson(const CellRun& run) {
  Json ranks = Json::array();
  for (const RankRun& rank : run.ranks) {
    Json steps = Json::array();
    for (const StepRun& step : rank.steps) {
      steps.push_back(Json{{"begin_us", step.begin_us},
                           {"compute_us", step.compute_us},
                           {"wait_us", step.wait_us},
                           {"sent_bytes", step.sent_bytes}});
    }
    ranks.push_back(Json{{"rank", rank.rank},
                         {"host", rank.host},
                         {"seconds", rank.seconds},
                         {"cpu_seconds", rank.cpu_seconds},
                         {"transport_cpu_seconds", rank.transport_cpu_seconds},
                         {"peak_bytes", rank.peak_bytes},
                         {"base_bytes", rank.base_bytes},
                         {"sent_bytes", rank.sent_bytes},
                         {"skipped_steps", rank.skipped_steps},
                         {"steps", steps}});
  }
  return ranks;
}

template <typename Figure>
Json OfARank(const ScaleRow& row, Figure figure) {
  return row.own_processes ? Json(figure) : Json();
}

Json RowJson(const ScaleRow& row) {
  Json steps = Json::array();
  for (const StepShare& step : row.steps) {
    steps.push_back(
        Json{{"mean_us", step.mean_us}, {"shares", SharesJson(step.shares)}, {"sent_bytes", step.sent_bytes}});
  }
  Json json{{"tokens", row.tokens},
            {"workers", row.workers},
            {"runs", row.runs},
            {"seconds", row.seconds},
            {"speedup", row.speedup},
            {"efficiency", row.efficiency},
            {"shares", SharesJson(row.shares)},
            {"sent_bytes", row.sent_bytes},
            {"peak_bytes", OfARank(row, row.peak_bytes)},
            {"data_bytes", OfARank(row, row.data_bytes)},
            {"cpu_seconds", row.cpu_seconds},
            {"cpu_ratio", row.cpu_ratio},
            {"cpu_speedup", OfARank(row, row.cpu_speedup)},
            {"gflops", row.gflops},
            {"verified", row.verified},
            {"digest", row.shown.digest},
            {"strategy", row.shown.strategy}};
  if (row.bound_ratio > 0) json["bound_ratio"] = row.bound_ratio;
  json["steps"] = steps;
  json["ranks"] = RanksJson(row.shown);
  return json;
}

Json FitJson(const std::optional<PowerFit>& fit) { return fit.has_value() ? Json(fit->exponent) : Json(); }

}  // namespace

std::string DescribeProblem(const ScaleReport& report) {
  if (report.rows.empty()) return "";
  // The last cell has the most workers: with one there is no strategy.
  const CellRun& run = report.rows.back().shown;
  return absl::StrCat(run.model.empty() ? "attention alone, causal" : absl::StrCat("prefill of ", run.model), ", ",
                      run.heads, " heads, KV ", run.kv_type, ", kernels ", run.kernels, ", ", run.strategy, " over ",
                      run.transport, ", ", run.threads, run.threads == 1 ? " thread" : " threads", " a worker");
}

std::string ScaleTable(const ScaleReport& report) {
  bool bound = false;
  for (const ScaleRow& row : report.rows) bound = bound || row.bound_ratio > 0;
  std::vector<std::vector<std::string>> lines = {{"TOKENS", "WORKERS", "SECONDS", "SPEED-UP", "EFFICIENCY %",
                                                  "COMPUTE %", "TRANSFER %", "WAIT %", "SENT", "PEAK A RANK", "CPU S",
                                                  "CPU RATIO", "CPU SPEED-UP", "GFLOP/S"}};
  if (bound) lines[0].push_back("OF BOUND");
  lines[0].push_back("VERIFIED");
  for (const ScaleRow& row : report.rows) {
    lines.push_back(
        {ShowCount(row.tokens), absl::StrCat(row.workers), Seconds(row.seconds), absl::StrFormat("%.3f", row.speedup),
         Percent(row.efficiency), Percent(row.shares.compute), Percent(row.shares.transfer), Percent(row.shares.late),
         ShowBytes(row.sent_bytes), row.own_processes ? ShowBytes(row.peak_bytes) : "-", Seconds(row.cpu_seconds),
         absl::StrFormat("%.3f", row.cpu_ratio), row.own_processes ? absl::StrFormat("%.3f", row.cpu_speedup) : "-",
         absl::StrFormat("%.1f", row.gflops)});
    if (bound) lines.back().push_back(absl::StrFormat("%.3f", row.bound_ratio));
    lines.back().push_back(row.verified ? "yes" : "NO");
  }
  return ShowTable(lines);
}

std::string ScaleStepTable(const ScaleReport& report) {
  std::vector<std::vector<std::string>> lines = {
      {"TOKENS", "WORKERS", "RING STEP", "MEAN MS", "COMPUTE %", "TRANSFER %", "WAIT %", "SENT"}};
  for (const ScaleRow& row : report.rows) {
    if (row.workers == 1 || row.steps.size() > kMostShownSteps) continue;
    for (size_t s = 0; s < row.steps.size(); ++s) {
      const StepShare& step = row.steps[s];
      lines.push_back({ShowCount(row.tokens), absl::StrCat(row.workers), absl::StrCat(s),
                       absl::StrFormat("%.2f", step.mean_us * 1e-3), Percent(step.shares.compute),
                       Percent(step.shares.transfer), Percent(step.shares.late), ShowBytes(step.sent_bytes)});
    }
  }
  return lines.size() == 1 ? "" : ShowTable(lines);
}

std::string ScaleFitLines(const ScaleReport& report) {
  std::string text;
  for (const ScaleFit& fit : report.fits) {
    if (!fit.time.has_value()) continue;
    absl::StrAppend(&text, fit.workers, fit.workers == 1 ? " worker: " : " workers: ",
                    absl::StrFormat("time ~ n^%.2f", fit.time->exponent));
    if (fit.memory.has_value())
      absl::StrAppend(&text, absl::StrFormat(", memory a rank ~ n^%.2f", fit.memory->exponent));
    absl::StrAppend(&text, "\n");
  }
  return text;
}

Json ScaleJson(const ScaleReport& report, const BenchFacts& facts) {
  Json rows = Json::array(), fits = Json::array();
  for (const ScaleRow& row : report.rows) rows.push_back(RowJson(row));
  for (const ScaleFit& fit : report.fits) {
    fits.push_back(
        Json{{"workers", fit.workers}, {"time_exponent", FitJson(fit.time)}, {"memory_exponent", FitJson(fit.memory)}});
  }
  return Json{{"benchmark", "scale"},
              {"machine", facts.machine},
              {"cores", facts.cores},
              {"date", facts.date},
              {"command", facts.command},
              {"problem", DescribeProblem(report)},
              {"verified", report.AllVerified()},
              {"cells", rows},
              {"fits", fits}};
}

}  // namespace rondo::cli
