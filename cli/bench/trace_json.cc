#include "cli/bench/trace_json.h"

#include "absl/strings/str_cat.h"
#include "cli/json_out.h"

namespace rondo::cli {
namespace {

Json Slice(const char* name, int rank, size_t step, double begin_us, double us, uint64_t bytes) {
  Json args{{"step", step}};
  if (bytes > 0) args["sent_bytes"] = bytes;
  return Json{{"name", name}, {"cat", "ring"},  {"ph", "X"}, {"pid", rank},
              {"tid", 0},     {"ts", begin_us}, {"dur", us}, {"args", args}};
}

Json Name(const char* what, int rank, const std::string& name) {
  return Json{{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", 0}, {"args", Json{{"name", name}}}};
}

}  // namespace

std::string TraceJson(const CellRun& run) {
  Json events = Json::array();
  for (const RankRun& rank : run.ranks) {
    events.push_back(Name("process_name", rank.rank, absl::StrCat("rank ", rank.rank, " on ", rank.host)));
    events.push_back(Name("thread_name", rank.rank, "ring"));
    events.push_back(Json{{"name", "process_sort_index"},
                          {"ph", "M"},
                          {"pid", rank.rank},
                          {"tid", 0},
                          {"args", Json{{"sort_index", rank.rank}}}});
    for (size_t s = 0; s < rank.steps.size(); ++s) {
      const StepRun& step = rank.steps[s];
      const WaitSplit wait = SplitWait(run, rank.rank, s);
      const double computed = step.begin_us + step.compute_us;
      events.push_back(Slice("compute", rank.rank, s, step.begin_us, step.compute_us, step.sent_bytes));
      if (wait.late_us > 0) events.push_back(Slice("wait for peer", rank.rank, s, computed, wait.late_us, 0));
      if (wait.transfer_us > 0) {
        events.push_back(Slice("transfer", rank.rank, s, computed + wait.late_us, wait.transfer_us, 0));
      }
    }
  }
  return JsonLine(Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}) + "\n";
}

}  // namespace rondo::cli
