#include "worker/device/free_ranges.h"

#include <iterator>

#include "base/check.h"

namespace rondo {

void FreeRanges::Add(std::byte* base, size_t bytes) {
  RONDO_CHECK(bytes > 0 && stretches_.emplace(base, bytes).second);
  free_.emplace(base, bytes);
}

std::byte* FreeRanges::Take(size_t bytes) {
  RONDO_CHECK(bytes > 0);
  auto best = free_.end();
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (range->second >= bytes && (best == free_.end() || range->second < best->second)) best = range;
  }
  if (best == free_.end()) return nullptr;
  const auto [begin, size] = *best;
  free_.erase(best);
  if (size > bytes) free_.emplace(begin + bytes, size - bytes);
  return begin;
}

void FreeRanges::Give(std::byte* p, size_t bytes) {
  auto [given, is_new] = free_.emplace(p, bytes);
  RONDO_CHECK(is_new);
  const auto joins = [this](auto left, auto right) {
    RONDO_CHECK(left->first + left->second <= right->first);  // else part of it was free already
    return left->first + left->second == right->first && stretches_.count(right->first) == 0;
  };
  if (const auto next = std::next(given); next != free_.end() && joins(given, next)) {
    given->second += next->second;
    free_.erase(next);
  }
  if (given == free_.begin()) return;
  if (const auto before = std::prev(given); joins(before, given)) {
    before->second += given->second;
    free_.erase(given);
  }
}

bool FreeRanges::Owns(const void* p) const {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(p));
  auto after = stretches_.upper_bound(at);
  if (after == stretches_.begin()) return false;
  --after;
  return at < after->first + after->second;
}

std::vector<std::byte*> FreeRanges::stretches() const {
  std::vector<std::byte*> bases;
  for (const auto& [base, bytes] : stretches_) bases.push_back(base);
  return bases;
}

std::vector<std::byte*> FreeRanges::RemoveIdle(absl::FunctionRef<bool(std::byte* base)> may_go) {
  std::vector<std::byte*> idle;
  for (auto stretch = stretches_.begin(); stretch != stretches_.end();) {
    const auto range = free_.find(stretch->first);
    if (range == free_.end() || range->second != stretch->second || !may_go(stretch->first)) {
      ++stretch;
      continue;
    }
    idle.push_back(stretch->first);
    free_.erase(range);
    stretch = stretches_.erase(stretch);
  }
  return idle;
}

}  // namespace rondo
