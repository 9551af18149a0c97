#include "model/tokenizer/bpe.h"

#include <algorithm>

namespace rondo {
namespace {

constexpr int32_t kGone = -2;  // id of a symbol that was merged into its left neighbour

}  // namespace

bool BpeMerger::Worse(const Candidate& a, const Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
}

void BpeMerger::Push(int32_t left) {
  const Symbol& a = symbols_[static_cast<size_t>(left)];
  if (a.next < 0 || a.id < 0) return;
  const int32_t right_id = symbols_[static_cast<size_t>(a.next)].id;
  if (right_id < 0) return;
  const MergeTable::Merge* merge = merges_.Find(a.id, right_id);
  if (merge == nullptr) return;
  heap_.push_back({merge->rank, left, a.id, right_id, merge->result});
  std::push_heap(heap_.begin(), heap_.end(), Worse);
}

void BpeMerger::Merge(std::string_view word, const std::vector<int32_t>& id_of_byte, std::vector<int32_t>* out) {
  const auto count = static_cast<int32_t>(word.size());
  symbols_.clear();
  heap_.clear();
  for (int32_t i = 0; i < count; ++i) {
    const auto byte = static_cast<uint8_t>(word[static_cast<size_t>(i)]);
    symbols_.push_back({id_of_byte[byte], i - 1, i + 1 < count ? i + 1 : -1});
  }
  for (int32_t i = 0; i + 1 < count; ++i) Push(i);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), Worse);
    const Candidate best = heap_.back();
    heap_.pop_back();
    Symbol& left = symbols_[static_cast<size_t>(best.left)];
    if (left.id != best.left_id || left.next < 0) continue;
    Symbol& right = symbols_[static_cast<size_t>(left.next)];
    if (right.id != best.right_id) continue;
    left.id = best.result;
    right.id = kGone;
    left.next = right.next;
    if (left.next >= 0) symbols_[static_cast<size_t>(left.next)].previous = best.left;
    if (left.previous >= 0) Push(left.previous);
    Push(best.left);
  }
  for (int32_t i = count == 0 ? -1 : 0; i >= 0; i = symbols_[static_cast<size_t>(i)].next) {
    if (symbols_[static_cast<size_t>(i)].id >= 0) out->push_back(symbols_[static_cast<size_t>(i)].id);
  }
}

}  // namespace rondo
