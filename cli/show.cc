#include "cli/show.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"

namespace rondo::cli {

std::string ShowCount(uint64_t n) {
  std::string digits = absl::StrCat(n);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

std::string ShowBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return absl::StrFormat("%.1f %s", value, unit);
}

std::string ShowRate(double per_s) {
  if (!(per_s > 0)) return "0";
  if (per_s >= 100) return ShowCount(static_cast<uint64_t>(per_s + 0.5));
  return absl::StrFormat(per_s >= 10 ? "%.1f" : "%.2f", per_s);
}

std::string ShowModel(std::string_view name) {
  return name.empty() ? "no model: attention jobs only" : absl::StrCat("model ", Sv(name));
}

std::string ShowWorkers(uint64_t n) { return absl::StrCat(n, n == 1 ? " worker" : " workers"); }

std::string ShowTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) {
      const bool last = c + 1 == row.size();
      absl::StrAppend(&out, row[c], last ? "\n" : std::string(widths[c] - row[c].size() + 2, ' '));
    }
  }
  return out;
}

}  // namespace rondo::cli
