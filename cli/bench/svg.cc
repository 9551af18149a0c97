#include "cli/bench/svg.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"

namespace rondo::cli {
namespace {

// Every colour is said plainly, and again for dark: viewers without CSS variables or media queries show light.
constexpr char kStyle[] = R"(
.back{fill:#fcfcfb}.plot{fill:none}
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;font-size:12px;fill:#2b2f36}
.title{font-size:19px;font-weight:650}.head{font-size:14px;font-weight:600}.small{font-size:11px}
.muted{fill:#6b7280}.grid{stroke:#e7e8ea;stroke-width:1}.axis{stroke:#a8adb5;stroke-width:1}
.ideal{stroke:#9aa0a9;stroke-width:1.25;stroke-dasharray:5 4;fill:none}
.line{fill:none;stroke-width:2.25;stroke-linejoin:round;stroke-linecap:round}.fit{fill:none;stroke-width:1.25;stroke-dasharray:2 4}
.dot{stroke:#fcfcfb;stroke-width:1.5}.bold{font-weight:600}
.line.s0,.fit.s0{stroke:#1d4ed8}.dot.s0,text.s0{fill:#1d4ed8}
.line.s1,.fit.s1{stroke:#c2410c}.dot.s1,text.s1{fill:#c2410c}
.line.s2,.fit.s2{stroke:#0f766e}.dot.s2,text.s2{fill:#0f766e}
.line.s3,.fit.s3{stroke:#9333ea}.dot.s3,text.s3{fill:#9333ea}
.line.s4,.fit.s4{stroke:#a16207}.dot.s4,text.s4{fill:#a16207}
.line.s5,.fit.s5{stroke:#be185d}.dot.s5,text.s5{fill:#be185d}
.lane{fill:#f0f1f2}.compute{fill:#3b72e8}.compute.odd{fill:#6b97f2}.transfer{fill:#e8a13b}.late{fill:#d9d2c5}
@media (prefers-color-scheme:dark){
.back{fill:#15171b}text{fill:#e4e6ea}.muted{fill:#9aa1ac}.grid{stroke:#282c33}.axis{stroke:#5a616c}
.ideal{stroke:#7b828d}.dot{stroke:#15171b}
.line.s0,.fit.s0{stroke:#7aa5ff}.dot.s0,text.s0{fill:#7aa5ff}
.line.s1,.fit.s1{stroke:#ff9b66}.dot.s1,text.s1{fill:#ff9b66}
.line.s2,.fit.s2{stroke:#4fd1c0}.dot.s2,text.s2{fill:#4fd1c0}
.line.s3,.fit.s3{stroke:#c79bff}.dot.s3,text.s3{fill:#c79bff}
.line.s4,.fit.s4{stroke:#e6c15c}.dot.s4,text.s4{fill:#e6c15c}
.line.s5,.fit.s5{stroke:#ff8fbf}.dot.s5,text.s5{fill:#ff8fbf}
.lane{fill:#1f2228}.compute{fill:#5b8df5}.compute.odd{fill:#3f6fd6}.transfer{fill:#d9952f}.late{fill:#4a463f}
}
)";

std::string Number(double x) {
  std::string text = absl::StrFormat("%.2f", x);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string Close(std::string_view element, std::string_view tooltip) {
  if (tooltip.empty()) return "/>\n";
  return absl::StrCat("><title>", EscapeXml(tooltip), "</title></", Sv(element), ">\n");
}

}  // namespace

std::string EscapeXml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Svg::Svg(int width, int height, std::string_view title, std::string_view description) {
  absl::StrAppend(&out_, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", width, " ", height, "\" width=\"",
                  width, "\" height=\"", height, "\" role=\"img\">\n<title>", EscapeXml(title), "</title>\n<desc>",
                  EscapeXml(description), "</desc>\n<style>", kStyle, "</style>\n");
  Rect("back", 0, 0, width, height);
}

void Svg::Line(std::string_view css, double x1, double y1, double x2, double y2) {
  absl::StrAppend(&out_, "<line class=\"", Sv(css), "\" x1=\"", Number(x1), "\" y1=\"", Number(y1), "\" x2=\"",
                  Number(x2), "\" y2=\"", Number(y2), "\"/>\n");
}

void Svg::Path(std::string_view css, const std::vector<std::pair<double, double>>& points) {
  absl::StrAppend(&out_, "<polyline class=\"", Sv(css), "\" points=\"");
  for (size_t i = 0; i < points.size(); ++i) {
    absl::StrAppend(&out_, i == 0 ? "" : " ", Number(points[i].first), ",", Number(points[i].second));
  }
  absl::StrAppend(&out_, "\"/>\n");
}

void Svg::Rect(std::string_view css, double x, double y, double width, double height, std::string_view tooltip) {
  absl::StrAppend(&out_, "<rect class=\"", Sv(css), "\" x=\"", Number(x), "\" y=\"", Number(y), "\" width=\"",
                  Number(width), "\" height=\"", Number(height), "\"", Close("rect", tooltip));
}

void Svg::Dot(std::string_view css, double x, double y, double radius, std::string_view tooltip) {
  absl::StrAppend(&out_, "<circle class=\"", Sv(css), "\" cx=\"", Number(x), "\" cy=\"", Number(y), "\" r=\"",
                  Number(radius), "\"", Close("circle", tooltip));
}

void Svg::Text(std::string_view css, double x, double y, std::string_view text, Anchor anchor) {
  const char* where = anchor == Anchor::kStart ? "start" : anchor == Anchor::kMiddle ? "middle" : "end";
  absl::StrAppend(&out_, "<text class=\"", Sv(css), "\" x=\"", Number(x), "\" y=\"", Number(y), "\" text-anchor=\"",
                  where, "\">", EscapeXml(text), "</text>\n");
}

std::string Svg::Finish() && { return absl::StrCat(out_, "</svg>\n"); }

std::vector<double> NiceTicks(double low, double high, int count) {
  const double raw = (high - low) / std::max(1, count);
  if (!(raw > 0)) return {low};
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double unit = raw / power;
  const double step = power * (unit <= 1 ? 1 : unit <= 2 ? 2 : unit <= 5 ? 5 : 10);
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  for (double i = first; i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

void SpreadLabels(std::vector<double>* positions, double gap, double limit) {
  std::vector<size_t> order(positions->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return (*positions)[a] < (*positions)[b]; });
  for (size_t i = 1; i < order.size(); ++i) {
    double& at = (*positions)[order[i]];
    at = std::max(at, (*positions)[order[i - 1]] + gap);
  }
  double most = limit;
  for (size_t i = order.size(); i-- > 0;) {
    double& at = (*positions)[order[i]];
    at = std::min(at, most);
    most = at - gap;
  }
}

}  // namespace rondo::cli
