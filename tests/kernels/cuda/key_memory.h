// Keys of a run of blocks in the layouts the kernels accept, and the ranges of memory a kernel may touch; used by the
// emulated runs.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "tests/kernels/cuda/emulated.h"

namespace rondo::cuda {

class KeyMemory {
 public:
  KeyMemory(const Problem& problem, const Tensors& tensors, BlockRange blocks, Layout layout) {
    const int64_t begin = blocks.begin * kTestBlock;
    const int64_t end = std::max(begin, std::min(problem.tokens, blocks.end * kTestBlock));
    const int64_t row = int64_t{problem.kv_heads} * problem.head_dim;
    args_.first_block = blocks.begin;
    args_.tokens = end - begin;
    if (layout == Layout::kRows) {
      args_.row_stride = row;
      args_.head_stride = problem.head_dim;
      k_.assign(tensors.k.begin() + begin * row, tensors.k.begin() + end * row);
      v_.assign(tensors.v.begin() + begin * row, tensors.v.begin() + end * row);
    } else {
      MakePages(problem, tensors, begin, end);
    }
    k_.reserve(1);
    v_.reserve(1);
    args_.k = k_.data();
    args_.v = v_.data();
  }
  const KeyArgs& args() const { return args_; }
  void AddRanges(std::vector<simt::GlobalRange>* ranges) const {
    ranges->push_back({k_.data(), k_.size() * 2, false, "k"});
    ranges->push_back({v_.data(), v_.size() * 2, false, "v"});
    ranges->push_back({offsets_.data(), offsets_.size() * 8, false, "page_offsets"});
  }

 private:
  static constexpr int kPageShift = 6;
  void MakePages(const Problem& problem, const Tensors& tensors, int64_t begin, int64_t end) {
    args_.row_stride = problem.head_dim;
    args_.page_shift = kPageShift;
    args_.head_stride = problem.head_dim << kPageShift;
    const int64_t page = args_.head_stride * problem.kv_heads;
    std::vector<int64_t> order;
    // Those that hold keys: a block at the end may have fewer.
    for (int64_t p = 0; p << kPageShift < end - begin; ++p) order.push_back(p);
    std::shuffle(order.begin(), order.end(), std::mt19937(7));
    for (const int64_t place : order) offsets_.push_back(place * page);
    k_.assign(static_cast<size_t>(page * static_cast<int64_t>(order.size())), 0x7fff);
    v_ = k_;
    for (int64_t position = begin; position < end; ++position) {
      for (int head = 0; head < problem.kv_heads; ++head) {
        const int64_t from = (position * problem.kv_heads + head) * problem.head_dim;
        const int64_t to = offsets_[(position - begin) >> kPageShift] + head * args_.head_stride +
                           (position & ((1 << kPageShift) - 1)) * args_.row_stride;
        std::copy_n(tensors.k.begin() + from, problem.head_dim, k_.begin() + to);
        std::copy_n(tensors.v.begin() + from, problem.head_dim, v_.begin() + to);
      }
    }
    args_.page_offsets = offsets_.data();
  }

  KeyArgs args_;
  std::vector<uint16_t> k_, v_;
  std::vector<int64_t> offsets_;
};

}  // namespace rondo::cuda
