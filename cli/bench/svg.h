// Builds a self-contained SVG: shapes whose colours follow the reader's light or dark setting; used by scale_plot.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo::cli {

// Text with &, <, > and quotes as XML wants them.
std::string EscapeXml(std::string_view text);

enum class Anchor { kStart, kMiddle, kEnd };

// Classes are those of the style sheet: "title", "text", "small", "muted", "grid", "axis", "ideal", "line s0" to
// "line s5" (series), "dot s0", "fill s0", "compute", "transfer", "late".
class Svg {
 public:
  Svg(int width, int height, std::string_view title, std::string_view description);

  void Line(std::string_view css, double x1, double y1, double x2, double y2);
  void Path(std::string_view css, const std::vector<std::pair<double, double>>& points);
  void Rect(std::string_view css, double x, double y, double width, double height, std::string_view tooltip = "");
  void Dot(std::string_view css, double x, double y, double radius, std::string_view tooltip = "");
  void Text(std::string_view css, double x, double y, std::string_view text, Anchor anchor = Anchor::kStart);

  std::string Finish() &&;

 private:
  std::string out_;
};

// Round numbers from at most `low` to at least `high`, about `count` of them: 1, 2 or 5 times a power of ten apart.
std::vector<double> NiceTicks(double low, double high, int count);

// Moves values apart, in place, so that neighbours are at least `gap` from each other, keeping their order and moving
// as little as a greedy pass can; none goes past `limit`. For the labels at the ends of lines.
void SpreadLabels(std::vector<double>* positions, double gap, double limit);

}  // namespace rondo::cli
