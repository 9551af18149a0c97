// Byte-pair merging of one word: lowest rank first, leftmost on ties, O(n log n). Used by the tokenizer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace rondo {

// The merges of a vocabulary by the ids they join.
class MergeTable {
 public:
  struct Merge {
    int32_t rank = 0;
    int32_t result = 0;
  };

  void Reserve(size_t merges) { merges_.reserve(merges); }
  // The first merge of a pair wins.
  void Add(int32_t left, int32_t right, Merge merge) { merges_.try_emplace(Key(left, right), merge); }
  // Null where the two do not join.
  const Merge* Find(int32_t left, int32_t right) const {
    const auto found = merges_.find(Key(left, right));
    return found == merges_.end() ? nullptr : &found->second;
  }

 private:
  static uint64_t Key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  absl::flat_hash_map<uint64_t, Merge> merges_;
};

// Scratch of one thread; it keeps its storage from word to word.
class BpeMerger {
 public:
  explicit BpeMerger(const MergeTable& merges) : merges_(merges) {}

  // Starts from one token a byte (`id_of_byte` [256]; -1 for a byte without a token, which joins nothing), merges, and
  // appends what is left to `out`, without the -1.
  void Merge(std::string_view word, const std::vector<int32_t>& id_of_byte, std::vector<int32_t>* out);

 private:
  struct Symbol {
    int32_t id = 0;
    int32_t previous = 0;  // index, -1: none
    int32_t next = 0;
  };
  struct Candidate {
    int32_t rank = 0;
    int32_t left = 0;                   // index of the left symbol
    int32_t left_id = 0, right_id = 0;  // as they were: the candidate is stale where they changed
    int32_t result = 0;
  };

  static bool Worse(const Candidate& a, const Candidate& b);  // order of the heap: the best on top
  void Push(int32_t left);

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace rondo
