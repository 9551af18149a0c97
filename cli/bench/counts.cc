#include "cli/bench/counts.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"

namespace rondo::cli {

absl::StatusOr<std::vector<int64_t>> ParseCounts(std::string_view option, std::string_view text, int64_t least,
                                                 int64_t most) {
  std::vector<int64_t> counts;
  for (absl::string_view piece : absl::StrSplit(Sv(text), ',')) {
    absl::string_view digits = piece;
    int64_t unit = 1;
    if (!digits.empty()) {
      const char last = digits.back();
      unit = last == 'k' || last == 'K' ? int64_t{1} << 10 : last == 'M' || last == 'm' ? int64_t{1} << 20 : 1;
      if (unit > 1) digits.remove_suffix(1);
    }
    int64_t number = 0;
    if (!absl::SimpleAtoi(digits, &number) || __builtin_mul_overflow(number, unit, &number) || number < least ||
        number > most) {
      return absl::InvalidArgumentError(absl::StrCat(Sv(option), ": '", piece, "' is not a number from ", least, " to ",
                                                     most, "; write a list such as 1,2,4 or 4k,16k"));
    }
    counts.push_back(number);
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

std::string ShowTokens(int64_t tokens) {
  if (tokens != 0 && tokens % (int64_t{1} << 20) == 0) return absl::StrCat(tokens >> 20, "M");
  if (tokens != 0 && tokens % 1024 == 0) return absl::StrCat(tokens >> 10, "k");
  return absl::StrCat(tokens);
}

}  // namespace rondo::cli
