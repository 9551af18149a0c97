// Canonical blocks and the fixed merge tree over them: the part of the law that attention kernels, the KV cache, the
// plan and the ring all share. Pure arithmetic on block indices.
//
// Blocks are the unit in which keys are kept and sent. A kernel family computes its partials over leaves of the tree:
// one block on the CPU (leaf level 0), 2^L of them on GPUs, where a partial that waits for its sibling costs memory
// traffic.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rondo {

// Keys are cut by absolute position into canonical blocks of B tokens, B a constant of the CPU kernel family.
// 256: small enough that zigzag chunks (whole blocks) balance a 5,000-token document over 4 workers, large enough
// that merging (2 operations an element a block) stays under 1 % of the 2 * 256 fused multiply-adds it follows.
inline constexpr int64_t kBlockTokens = 256;

constexpr int64_t BlockOf(int64_t position) { return position / kBlockTokens; }
constexpr int64_t BlocksFor(int64_t tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; }

// A node of the fixed binary tree: it covers blocks [index << level, (index + 1) << level).
struct NodeId {
  int32_t level = 0;
  int64_t index = 0;
  auto operator<=>(const NodeId&) const = default;
  constexpr int64_t begin() const { return index << level; }
  constexpr int64_t end() const { return (index + 1) << level; }
  constexpr NodeId parent() const { return {level + 1, index >> 1}; }
  constexpr NodeId sibling() const { return {level, index ^ 1}; }
};

// The leaf level of a kernel family, by its name: what a coordinator deals tensors by.
constexpr int LeafLevelOf(std::string_view family) { return family.substr(0, 2) == "sm" ? 4 : 0; }

// Half-open range of block indices.
struct BlockRange {
  int64_t begin = 0;
  int64_t end = 0;
  auto operator<=>(const BlockRange&) const = default;
  constexpr int64_t size() const { return end > begin ? end - begin : 0; }
  constexpr bool empty() const { return end <= begin; }
};

// `range` widened to whole leaves.
constexpr BlockRange WholeLeaves(BlockRange range, int leaf_level) {
  const int64_t blocks = int64_t{1} << leaf_level;
  return {range.begin / blocks * blocks, (range.end + blocks - 1) / blocks * blocks};
}

// The complete subtrees that tile `range`, in ascending order of blocks: what the holder of a contiguous run of
// blocks computes and sends. At most 2 * log2(size) of them. None is less than a leaf: those at the ends of the range
// may reach beyond it, where their keys are invisible or not there.
inline std::vector<NodeId> DyadicNodes(BlockRange range, int leaf_level) {
  std::vector<NodeId> nodes;
  if (range.empty()) return nodes;
  range = WholeLeaves(range, leaf_level);
  for (int64_t b = range.begin; b < range.end;) {
    const int by_alignment = b == 0 ? 62 : std::countr_zero(static_cast<uint64_t>(b));
    const int by_length = std::bit_width(static_cast<uint64_t>(range.end - b)) - 1;
    const int level = by_alignment < by_length ? by_alignment : by_length;
    nodes.push_back({level, b >> level});
    b += int64_t{1} << level;
  }
  return nodes;
}

}  // namespace rondo
