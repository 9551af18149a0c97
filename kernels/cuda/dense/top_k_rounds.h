// The rounds of top-k on the host: each sorts slices of what the last one kept and keeps their first k, until a row is
// one slice. Used by the launcher, and by the test over the emulator. With k = 64 a vocabulary of 128,000 takes three
// rounds.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/dense/args.h"

namespace rondo::cuda {

inline constexpr int kSlice = 2048;
inline constexpr int kMostTopK = kSlice / 2;  // a round at least halves what is left

// Slices of a row of `count`; at least one, so that a row of nothing has an answer.
constexpr int32_t TopKSlices(int32_t count) { return count <= kSlice ? 1 : (count - 1) / kSlice + 1; }

// What rounds but the last keep: the first two have a place each, and later ones, which keep less, take turns with
// them.
constexpr int64_t TopKScratchRanks(int64_t rows, int32_t count, int32_t k) {
  const int32_t first = TopKSlices(count);
  if (first == 1) return 0;
  const int32_t second = TopKSlices(first * k);
  return rows * (int64_t{first} + (second == 1 ? 0 : second)) * k;
}

// Calls launch(args, slices) for each round, until it returns what is wrong, and returns that.
template <class Launch>
std::string ForTopKRounds(const float* logits, int64_t rows, int32_t count, int32_t k, uint64_t* scratch,
                          uint64_t* ranks_out, Launch launch) {
  uint64_t* const places[2] = {scratch, scratch + rows * TopKSlices(count) * k};
  TopKArgs args{.logits = logits, .ranks_in = nullptr, .ranks_out = nullptr, .rows = rows, .count = count, .k = k};
  for (int round = 0;; ++round) {
    const int32_t slices = TopKSlices(args.count);
    args.ranks_out = slices == 1 ? ranks_out : places[round % 2];
    if (std::string wrong = launch(args, slices); !wrong.empty() || slices == 1) return wrong;
    args.logits = nullptr;
    args.ranks_in = args.ranks_out;
    args.count = slices * k;
  }
}

}  // namespace rondo::cuda
