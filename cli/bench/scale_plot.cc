#include "cli/bench/scale_plot.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"
#include "cli/bench/counts.h"
#include "cli/bench/svg.h"
#include "cli/bench/timeline_plot.h"

namespace rondo::cli {
namespace {

constexpr int kWidth = 1000;
constexpr double kLabelGap = 14;

// A rectangle of the picture and the numbers it shows, linear or logarithmic.
struct Frame {
  double left, top, right, bottom;
  double x_low, x_high, y_low, y_high;
  bool log = false;

  static double Place(double v, double low, double high, double from, double to, bool log) {
    if (log) v = std::log(v), low = std::log(low), high = std::log(high);
    return high > low ? from + (v - low) / (high - low) * (to - from) : (from + to) / 2;
  }
  double X(double v) const { return Place(v, x_low, x_high, left, right, log); }
  double Y(double v) const { return Place(v, y_low, y_high, bottom, top, log); }
};

struct Series {
  std::string label;
  std::vector<std::pair<double, double>> points;  // ascending x
};

std::string Class(const char* kind, size_t series) { return absl::StrCat(kind, " s", series % 6); }

std::string ShowNumber(double v) { return absl::StrFormat("%.6g", v); }

void DrawSeries(Svg& svg, const Frame& frame, const std::vector<Series>& all, const char* y_unit) {
  std::vector<double> labels;
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<std::pair<double, double>> path;
    for (const auto& [x, y] : all[i].points) path.emplace_back(frame.X(x), frame.Y(y));
    svg.Path(Class("line", i), path);
    for (size_t p = 0; p < path.size(); ++p) {
      svg.Dot(Class("dot", i), path[p].first, path[p].second, 4,
              absl::StrCat(all[i].label, ": ", absl::StrFormat("%.4g", all[i].points[p].second), y_unit));
    }
    labels.push_back(path.back().second + 4);
  }
  SpreadLabels(&labels, kLabelGap, frame.bottom + 4);
  for (size_t i = 0; i < all.size(); ++i) {
    svg.Text(absl::StrCat("bold s", i % 6), frame.X(all[i].points.back().first) + 10, labels[i], all[i].label);
  }
}

void DrawSpeedup(Svg& svg, const ScaleReport& report, const BenchFacts& facts, Frame frame) {
  std::map<int64_t, Series> by_tokens;
  std::vector<int> workers;
  double most = 1;
  int threads = 1;
  for (const ScaleRow& row : report.rows) {
    Series& series = by_tokens[row.tokens];
    series.label = absl::StrCat(ShowTokens(row.tokens), " tokens");
    series.points.emplace_back(row.workers, row.speedup);
    workers.push_back(row.workers);
    most = std::max(most, row.speedup);
    threads = std::max(1, row.shown.threads);
  }
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  // More workers than cores cannot be faster than the cores.
  const double limit = std::max(1.0, static_cast<double>(facts.cores) / threads);
  const std::vector<double> ticks = NiceTicks(0, std::max(most, std::min<double>(limit, workers.back())) * 1.1, 5);
  frame.x_low = 0;
  frame.x_high = workers.back();
  frame.y_low = 0;
  frame.y_high = ticks.back();
  svg.Text("head", frame.left, frame.top - 26, "Speed-up over workers");
  svg.Text("small muted", frame.left, frame.top - 10, "time of one worker / time; median of the rounds' ratios");
  for (const double tick : ticks) {
    svg.Line("grid", frame.left, frame.Y(tick), frame.right, frame.Y(tick));
    svg.Text("small muted", frame.left - 8, frame.Y(tick) + 4, ShowNumber(tick), Anchor::kEnd);
  }
  svg.Line("axis", frame.left, frame.bottom, frame.right, frame.bottom);
  for (const int w : workers) svg.Text("small muted", frame.X(w), frame.bottom + 18, absl::StrCat(w), Anchor::kMiddle);
  svg.Text("small muted", frame.right, frame.bottom + 34, "workers", Anchor::kEnd);
  const double ideal = std::min(frame.x_high, frame.y_high);
  svg.Line("ideal", frame.X(0), frame.Y(0), frame.X(ideal), frame.Y(ideal));
  svg.Text("small muted", frame.X(ideal) - 8, frame.Y(ideal) + 12, "ideal", Anchor::kEnd);
  if (limit < frame.x_high && limit <= frame.y_high) {
    svg.Line("ideal", frame.X(limit), frame.Y(limit), frame.right, frame.Y(limit));
    svg.Text("small muted", frame.right, frame.Y(limit) - 6, absl::StrCat(facts.cores, " cores"), Anchor::kEnd);
  }
  std::vector<Series> all;
  for (auto& [tokens, series] : by_tokens) all.push_back(std::move(series));
  DrawSeries(svg, frame, all, " times");
}

void DrawTime(Svg& svg, const ScaleReport& report, Frame frame) {
  std::map<int, Series> by_workers;
  double low = 1e300, high = 0;
  std::vector<int64_t> tokens;
  for (const ScaleRow& row : report.rows) {
    by_workers[row.workers].points.emplace_back(row.tokens, row.seconds);
    tokens.push_back(row.tokens);
    low = std::min(low, row.seconds);
    high = std::max(high, row.seconds);
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  frame.log = true;
  frame.x_low = static_cast<double>(tokens.front());
  frame.x_high = static_cast<double>(tokens.back());
  frame.y_low = std::pow(10, std::floor(std::log10(low)));
  frame.y_high = std::pow(10, std::ceil(std::log10(high * 1.0001)));
  svg.Text("head", frame.left, frame.top - 26, "Time over tokens");
  svg.Text("small muted", frame.left, frame.top - 10, "seconds, both axes logarithmic; with the fitted exponent");
  for (double tick = frame.y_low; tick <= frame.y_high * 1.0001; tick *= 10) {
    svg.Line("grid", frame.left, frame.Y(tick), frame.right, frame.Y(tick));
    svg.Text("small muted", frame.left - 8, frame.Y(tick) + 4, ShowNumber(tick), Anchor::kEnd);
  }
  svg.Line("axis", frame.left, frame.bottom, frame.right, frame.bottom);
  for (const int64_t n : tokens) {
    svg.Text("small muted", frame.X(static_cast<double>(n)), frame.bottom + 18, ShowTokens(n), Anchor::kMiddle);
  }
  svg.Text("small muted", frame.right, frame.bottom + 34, "tokens", Anchor::kEnd);
  std::vector<Series> all;
  for (auto& [w, series] : by_workers) {
    series.label = absl::StrCat(w, w == 1 ? " worker" : " workers");
    for (const ScaleFit& fit : report.fits) {
      if (fit.workers == w && fit.time.has_value())
        absl::StrAppend(&series.label, absl::StrFormat(", n^%.2f", fit.time->exponent));
    }
    all.push_back(std::move(series));
  }
  DrawSeries(svg, frame, all, " s");
}

}  // namespace

const ScaleRow* TimelineRow(const ScaleReport& report) {
  const ScaleRow* best = nullptr;
  for (const ScaleRow& row : report.rows) {
    if (row.workers < 2) continue;
    if (best == nullptr || std::pair(row.tokens, row.workers) > std::pair(best->tokens, best->workers)) best = &row;
  }
  return best;
}

std::string ScaleSvg(const ScaleReport& report, const BenchFacts& facts) {
  const ScaleRow* timeline = TimelineRow(report);
  constexpr double kTimelineTop = 480;
  const int height = timeline == nullptr ? 460 : static_cast<int>(kTimelineTop + TimelineHeight(*timeline) + 24);
  Svg svg(kWidth, height, "How ring attention scales", DescribeProblem(report));
  if (report.rows.empty()) return std::move(svg).Finish();
  svg.Text("title", 40, 44, "How ring attention scales");
  svg.Text("muted", 40, 66, DescribeProblem(report));
  svg.Text("muted", 40, 84,
           absl::StrCat(facts.machine, ", ", facts.cores, " cores, ", facts.date, ". ",
                        report.AllVerified() ? "Every cell gives the bits of one worker."
                                             : "NOT every cell gives the bits of one worker."));
  DrawSpeedup(svg, report, facts, {76, 158, 386, 400, 0, 0, 0, 0});
  DrawTime(svg, report, {572, 158, 832, 400, 0, 0, 0, 0});
  if (timeline != nullptr) DrawTimeline(svg, *timeline, 76, kTimelineTop, kWidth - 40);
  return std::move(svg).Finish();
}

std::string ScaleHtml(const ScaleReport& report, const BenchFacts& facts) {
  const std::string steps = ScaleStepTable(report);
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>How ring attention scales</title>\n<style>\n"
      "body{margin:0 auto;max-width:1000px;padding:16px;background:#fcfcfb;color:#2b2f36;"
      "font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,sans-serif}\n"
      "svg{width:100%;height:auto}pre{overflow-x:auto;font-size:12.5px;line-height:1.55}h2{font-size:16px;margin:28px "
      "0 4px}\n"
      "@media (prefers-color-scheme:dark){body{background:#15171b;color:#e4e6ea}}\n</style></head><body>\n",
      ScaleSvg(report, facts), "<h2>Cells</h2>\n<pre>", EscapeXml(ScaleTable(report)), "</pre>\n",
      steps.empty() ? std::string() : absl::StrCat("<h2>Ring steps</h2>\n<pre>", EscapeXml(steps), "</pre>\n"),
      "<h2>Growth</h2>\n<pre>", EscapeXml(ScaleFitLines(report)), "</pre>\n<p><code>", EscapeXml(facts.command),
      "</code></p>\n</body></html>\n");
}

}  // namespace rondo::cli
