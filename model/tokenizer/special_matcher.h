// Finds tokens that are never produced by merging: user-defined ones anywhere, control ones only where the text is the
// chat format's own and not the user's. Used by the tokenizer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace rondo {

// Bytes [begin, end) of a rendered text that the chat format wrote itself.
struct TrustedRange {
  size_t begin = 0;
  size_t end = 0;
};

class SpecialMatcher {
 public:
  struct Match {
    size_t begin = 0;
    size_t bytes = 0;
    int32_t id = 0;
  };

  // An empty text is never matched.
  void Add(std::string text, int32_t id, bool control);
  // Call once after the last Add.
  void Seal();

  // The first match at or after `from`; of those that begin there the longest. Control tokens match only inside one of
  // the `trusted` ranges (ascending, disjoint).
  std::optional<Match> Find(std::string_view text, size_t from, absl::Span<const TrustedRange> trusted) const;

 private:
  struct Entry {
    std::string text;
    int32_t id = 0;
    bool control = false;
  };
  std::array<std::vector<Entry>, 256> by_first_byte_;  // each longest first
  bool has_user_defined_ = false;
};

}  // namespace rondo
