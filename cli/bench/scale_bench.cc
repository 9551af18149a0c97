#include "cli/bench/scale_bench.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/bench/run_program.h"

namespace rondo::cli {
namespace {

absl::StatusOr<CellRun> RunCell(const ScaleOptions& o, int64_t workers, int64_t tokens) {
  const std::vector<std::string> command = CellCommand(o, workers, tokens);
  const absl::StatusOr<ProgramOutput> output = RunProgram(command);
  if (!output.ok()) return output.status();
  if (output->exit_code != 0) {
    return absl::UnknownError(absl::StrCat(tokens, " tokens on ", workers, workers == 1 ? " worker" : " workers",
                                           " exited with ", output->exit_code, ": ", LastWords(output->err),
                                           "\n  command: ", absl::StrJoin(command, " ")));
  }
  return ParseCellRun(output->out);
}

}  // namespace

double CellWeight(int64_t tokens, int64_t workers, int threads, int cores) {
  const double n = static_cast<double>(tokens);
  // Starting mpirun and the ranks costs about as much as attention over 8k tokens of the default shape.
  constexpr double kStart = 8192.0 * 8192.0;
  return kStart + n * n / static_cast<double>(std::clamp<int64_t>(workers * threads, 1, std::max(1, cores)));
}

absl::StatusOr<std::vector<CellRuns>> RunScaleCells(const ScaleOptions& o, int cores,
                                                    const std::function<void(const ScaleProgress&)>& progress) {
  std::vector<int64_t> workers = o.workers;
  if (std::find(workers.begin(), workers.end(), 1) == workers.end()) workers.insert(workers.begin(), 1);
  std::vector<CellRuns> cells;
  double all_weight = 0, done_weight = 0;
  for (const int64_t n : o.tokens) {
    for (const int64_t w : workers) {
      cells.push_back({n, static_cast<int>(w), {}});
      all_weight += o.repeat * CellWeight(n, w, o.threads, cores);
    }
  }
  ScaleProgress at;
  at.all = static_cast<int>(cells.size()) * o.repeat;
  const absl::Time start = absl::Now();
  for (size_t first = 0; first < cells.size(); first += workers.size()) {
    for (at.round = 0; at.round < o.repeat; ++at.round) {
      for (size_t i = 0; i < workers.size(); ++i) {
        // Every other round goes backwards: a slow drift then favours no worker count.
        CellRuns& cell = cells[first + (at.round % 2 == 0 ? i : workers.size() - 1 - i)];
        at.tokens = cell.tokens;
        at.workers = cell.workers;
        if (done_weight > 0) at.left_s = absl::ToDoubleSeconds(absl::Now() - start) * (all_weight / done_weight - 1);
        progress(at);
        absl::StatusOr<CellRun> run = RunCell(o, cell.workers, cell.tokens);
        if (!run.ok()) return run.status();
        cell.runs.push_back(*std::move(run));
        done_weight += CellWeight(cell.tokens, cell.workers, o.threads, cores);
        ++at.done;
      }
    }
  }
  return cells;
}

}  // namespace rondo::cli
