#include "model/decoder/local_attention.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/fold_nodes.h"

namespace rondo {
namespace {

// Query rows that share one pass over the keys. One block long and aligned to blocks, so that a strip of a prompt meets
// exactly the keys it may see, and its partial nodes stay a few megabytes however long the prompt.
constexpr int64_t kStripRows = kBlockTokens;

}  // namespace

LocalAttention::LocalAttention(const AttentionKernels& kernels, KvArena arena, ThreadPool& pool)
    : kernels_(kernels), arena_(std::move(arena)), pool_(pool) {}

void LocalAttention::Clear() { tokens_.clear(); }

void LocalAttention::Store(int32_t layer, PositionRun run, const float* k, const float* v) {
  const int64_t width = int64_t{arena_.shape().kv_heads} * arena_.shape().head_dim;
  for (int64_t p = run.begin; p < run.end;) {
    const int64_t count = std::min(run.end, (BlockOf(p) + 1) * kBlockTokens) - p;
    arena_.StoreRows(layer, BlockOf(p), p % kBlockTokens, count, k + (p - run.begin) * width,
                     v + (p - run.begin) * width);
    p += count;
  }
}

// The nodes of the tree over `blocks` blocks, with room for `rows` rows each.
absl::Span<PartialNode> LocalAttention::PlaceNodes(int64_t blocks, int64_t rows) {
  if (blocks != placed_blocks_) {
    node_ids_ = DyadicNodes({0, blocks}, arena_.shape().leaf_level);
    placed_blocks_ = blocks;
  }
  const size_t heads = static_cast<size_t>(rows) * arena_.shape().q_heads;
  const size_t outputs = heads * arena_.shape().head_dim;
  // Rounded up to whole cache lines, so that every array is aligned as the first is.
  const auto padded = [](size_t floats) { return (floats + 15) / 16 * 16; };
  float* at = storage_.Get(node_ids_.size() * (padded(outputs) + 2 * padded(heads)));
  nodes_.clear();
  for (NodeId id : node_ids_) {
    nodes_.push_back({id, at, at + padded(outputs), at + padded(outputs) + padded(heads)});
    at += padded(outputs) + 2 * padded(heads);
  }
  return absl::MakeSpan(nodes_);
}

void LocalAttention::AttendStrip(int32_t layer, int64_t tokens, const QueryRows& queries, float* out) {
  const int64_t visible = queries.first_position + queries.count;
  blocks_.clear();
  for (int64_t b = 0; b < BlocksFor(visible); ++b) {
    const int64_t kept = std::min(kBlockTokens, tokens - b * kBlockTokens);
    blocks_.push_back({arena_.Block(layer, b), b, static_cast<int32_t>(kept)});
  }
  const absl::Span<PartialNode> nodes = PlaceNodes(BlocksFor(visible), queries.count);
  kernels_.Attend(arena_.shape(), queries, blocks_, MaskSpec{}, nodes, pool_);
  const PartialNode root = FoldNodes(kernels_, arena_.shape(), queries.count, nodes, pool_);
  kernels_.Finish(arena_.shape(), queries.count, root, out, nullptr, pool_);
}

absl::Status LocalAttention::Run(int32_t layer, absl::Span<const PositionRun> runs, const float* q, const float* k,
                                 const float* v, float* out) {
  if (static_cast<size_t>(layer) >= tokens_.size()) tokens_.resize(layer + 1);
  const int64_t first = tokens_[layer];
  int64_t end = first;
  for (const PositionRun& run : runs) {
    RONDO_CHECK(run.begin == end && run.end >= run.begin);
    end = run.end;
  }
  if (BlocksFor(end) > arena_.slots()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("sequence of ", end, " tokens: KV memory holds ", arena_.slots() * kBlockTokens));
  }
  Store(layer, {first, end}, k, v);
  tokens_[layer] = end;
  const int64_t width = int64_t{arena_.shape().q_heads} * arena_.shape().head_dim;
  for (int64_t p = first; p < end;) {
    const int64_t count = std::min(end, (p / kStripRows + 1) * kStripRows) - p;
    AttendStrip(layer, end, {q + (p - first) * width, p, count}, out + (p - first) * width);
    p += count;
  }
  return absl::OkStatus();
}

}  // namespace rondo
