#include "worker/session/row_share.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace rondo {
namespace {

constexpr size_t kRunsInMessage = 8;

std::string Show(absl::Span<const PositionRun> runs) {
  std::string text;
  for (size_t i = 0; i < std::min(runs.size(), kRunsInMessage); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", "[", runs[i].begin, ", ", runs[i].end, ")");
  }
  if (runs.size() > kRunsInMessage) absl::StrAppend(&text, " and ", runs.size() - kRunsInMessage, " more");
  return text.empty() ? "none" : text;
}

}  // namespace

RowShare::RowShare(absl::Span<const PositionRun> runs) : runs_(runs.begin(), runs.end()) {
  for (const PositionRun& run : runs_) {
    begins_.push_back(rows_);
    rows_ += run.size();
  }
}

absl::StatusOr<int64_t> RowShare::Locate(int64_t first, int64_t* count) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), first,
                                      [](int64_t row, const PositionRun& run) { return row < run.begin; });
  if (after != runs_.begin()) {
    const PositionRun& run = *(after - 1);
    if (first < run.end && *count == 0) *count = run.end - first;
    if (first<run.end&& * count> 0 && *count <= run.end - first) {
      return begins_[after - 1 - runs_.begin()] + first - run.begin;
    }
  }
  return absl::OutOfRangeError(absl::StrCat("first_row: ", *count, " rows from ", first,
                                            " on do not lie in one of this rank's runs, which are ", Show(runs_)));
}

void ArrivedRows::Mark(int64_t first, int64_t count) {
  for (int64_t row = first; row < first + count; ++row) {
    if (seen_[row]) continue;
    seen_[row] = true;
    ++count_;
  }
}

}  // namespace rondo
