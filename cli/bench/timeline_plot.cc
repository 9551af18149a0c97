#include "cli/bench/timeline_plot.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/bench/counts.h"

namespace rondo::cli {
namespace {

constexpr double kHead = 56;
constexpr double kLane = 26;
constexpr double kBar = 18;
constexpr size_t kMostLanes = 32;
// A slice thinner than this cannot be seen, and a model's prefill has thousands.
constexpr double kThinnest = 0.15;

void Slice(Svg& svg, const char* css, double from, double to, double y, const std::string& tooltip) {
  if (to - from >= kThinnest) svg.Rect(css, from, y, to - from, kBar, tooltip);
}

void DrawKey(Svg& svg, double right, double y) {
  const std::pair<const char*, const char*> keys[] = {
      {"compute", "compute"}, {"transfer", "exposed transfer"}, {"late", "waiting for a peer's compute"}};
  double x = right - 390;
  for (const auto& [css, text] : keys) {
    svg.Rect(css, x, y - 9, 11, 11);
    svg.Text("small muted", x + 16, y, text);
    x += 34 + 6.2 * static_cast<double>(std::string(text).size());
  }
}

}  // namespace

double TimelineHeight(const ScaleRow& row) {
  return kHead + kLane * static_cast<double>(std::min(kMostLanes, row.shown.ranks.size())) + 30;
}

void DrawTimeline(Svg& svg, const ScaleRow& row, double left, double top, double right) {
  const CellRun& run = row.shown;
  svg.Text("head", left, top, "Ring timeline");
  svg.Text("small muted", left, top + 18,
           absl::StrCat(ShowTokens(run.tokens), " tokens, ", run.workers, " workers, ", run.strategy, ": ",
                        absl::StrFormat("%.3g s", run.seconds)));
  DrawKey(svg, right, top + 18);
  const double end_s = std::max(run.seconds, 1e-9);
  const auto x = [&](double us) { return left + std::min(1.0, us * 1e-6 / end_s) * (right - left); };
  const size_t lanes = std::min(kMostLanes, run.ranks.size());
  const double bottom = top + kHead - 16 + kLane * static_cast<double>(lanes);
  for (const double tick : NiceTicks(0, end_s, 8)) {
    if (tick > end_s * 1.0001) break;
    svg.Line("grid", x(tick * 1e6), top + kHead - 22, x(tick * 1e6), bottom);
    svg.Text("small muted", x(tick * 1e6), bottom + 16, absl::StrFormat("%.4g s", tick), Anchor::kMiddle);
  }
  for (size_t rank = 0; rank < lanes; ++rank) {
    const double y = top + kHead - 16 + kLane * static_cast<double>(rank);
    svg.Text("small muted", left - 8, y + 13, absl::StrCat("rank ", rank), Anchor::kEnd);
    svg.Rect("lane", left, y, right - left, kBar);
    for (size_t s = 0; s < run.ranks[rank].steps.size(); ++s) {
      const StepRun& step = run.ranks[rank].steps[s];
      const WaitSplit wait = SplitWait(run, static_cast<int>(rank), s);
      const double computed = step.begin_us + step.compute_us;
      const std::string name = absl::StrCat("rank ", rank, ", step ", s, ": ");
      Slice(svg, s % 2 == 0 ? "compute" : "compute odd", x(step.begin_us), x(computed), y,
            absl::StrCat(name, absl::StrFormat("compute %.2f ms", step.compute_us * 1e-3)));
      Slice(svg, "late", x(computed), x(computed + wait.late_us), y,
            absl::StrCat(name, absl::StrFormat("peer late %.2f ms", wait.late_us * 1e-3)));
      Slice(svg, "transfer", x(computed + wait.late_us), x(step.end_us()), y,
            absl::StrCat(name, absl::StrFormat("transfer %.2f ms", wait.transfer_us * 1e-3)));
    }
  }
}

}  // namespace rondo::cli
