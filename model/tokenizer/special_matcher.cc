#include "model/tokenizer/special_matcher.h"

#include <algorithm>
#include <string_view>

namespace rondo {
namespace {

bool Inside(absl::Span<const TrustedRange> ranges, size_t begin, size_t end) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [=](const TrustedRange& range) { return range.begin <= begin && end <= range.end; });
}

}  // namespace

void SpecialMatcher::Add(std::string text, int32_t id, bool control) {
  if (text.empty()) return;
  has_user_defined_ |= !control;
  by_first_byte_[static_cast<uint8_t>(text[0])].push_back({std::move(text), id, control});
}

void SpecialMatcher::Seal() {
  for (std::vector<Entry>& entries : by_first_byte_) {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return a.text.size() != b.text.size() ? a.text.size() > b.text.size() : a.id < b.id;
    });
  }
}

std::optional<SpecialMatcher::Match> SpecialMatcher::Find(std::string_view text, size_t from,
                                                          absl::Span<const TrustedRange> trusted) const {
  if (!has_user_defined_ && trusted.empty()) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at) {
    for (const Entry& entry : by_first_byte_[static_cast<uint8_t>(text[at])]) {
      if (!text.substr(at).starts_with(entry.text)) continue;
      if (entry.control && !Inside(trusted, at, at + entry.text.size())) continue;
      return Match{at, entry.text.size(), entry.id};
    }
  }
  return std::nullopt;
}

}  // namespace rondo
