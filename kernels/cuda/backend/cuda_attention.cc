#include "kernels/cuda/backend/cuda_attention.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/bf16.h"
#include "base/check.h"
#include "base/thread_pool.h"
#include "kernels/cuda/backend/node_layout.h"

namespace rondo::cuda {
namespace {

QueryArgs RowsOf(QueryArgs query, const Segment& segment) {
  query.q = static_cast<const uint16_t*>(query.q) + segment.begin * query.row_stride;
  query.rows = segment.end - segment.begin;
  query.first_position += segment.begin;
  return query;
}

int64_t BlocksOf(const KeyArgs& keys, int64_t block_tokens) { return (keys.tokens + block_tokens - 1) / block_tokens; }

NodeArgs FromRow(NodeArgs nodes, int64_t row) {
  nodes.o += row * nodes.o_row_stride;
  nodes.m += row * nodes.ml_row_stride;
  nodes.l += row * nodes.ml_row_stride;
  return nodes;
}

}  // namespace

CudaAttention::CudaAttention(Gpu& gpu)
    : gpu_(gpu),
      rounded_(gpu.staging()),
      queries_(gpu),
      pages_(gpu),
      slopes_(gpu),
      sinks_(gpu),
      nodes_(gpu),
      leaves_(gpu),
      sequence_args_(gpu),
      left_(gpu),
      right_(gpu),
      out_(gpu),
      lse_(gpu) {}

absl::Status CudaAttention::Supports(const AttentionShape& shape) const {
  if (shape.kv_type != KvType::kBf16) {
    return absl::InvalidArgumentError(absl::StrCat("kv_type: ", std::string(rondo::Name(shape.kv_type)),
                                                   " is not for GPUs, which keep keys and values in bf16"));
  }
  if (!gpu_.HasHeadDim(shape.head_dim)) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_dim: ", shape.head_dim, " has no GPU kernel; those for 64, 80, 96, 128 and 256 exist"));
  }
  return absl::OkStatus();
}

template <typename T>
T* CudaAttention::Place(TensorBuffer& buffer, int64_t count) const {
  return reinterpret_cast<T*>(buffer.Grow(std::max<int64_t>(count, 1) * sizeof(T)));
}

template <typename T>
const T* CudaAttention::Upload(TensorBuffer& buffer, const T* host, int64_t count) const {
  if (host == nullptr) return nullptr;
  T* const device = Place<T>(buffer, count);
  gpu_.Copy(device, host, count * sizeof(T));
  return device;
}

const uint16_t* CudaAttention::UploadQueries(const AttentionShape& shape, const QueryRows& queries,
                                             ThreadPool& pool) const {
  const int64_t row_elements = int64_t{shape.q_heads} * shape.head_dim;
  uint16_t* const rounded = Place<uint16_t>(rounded_, queries.count * row_elements);
  pool.Run(queries.count, [&](int64_t row, int) {
    for (int64_t i = row * row_elements; i < (row + 1) * row_elements; ++i) rounded[i] = FloatToBf16(queries.q[i]);
  });
  return Upload(queries_, rounded, queries.count * row_elements);
}

// The KV blocks of a run are pages of its canonical blocks, wherever each lies. Those a canonical block lacks at the
// ends of the run nobody sees.
KeyArgs CudaAttention::Keys(const AttentionShape& shape, absl::Span<const KvBlock> run) const {
  const int64_t first_leaf = run.front().index >> shape.leaf_level;
  const int64_t first_page = first_leaf << shape.leaf_level;
  const std::byte* const base = run.front().data;
  offsets_.assign(run.back().index + 1 - first_page, 0);
  for (const KvBlock& block : run) {
    offsets_[block.index - first_page] = (block.data - base) / static_cast<int64_t>(sizeof(uint16_t));
  }
  KeyArgs keys;
  keys.k = base;
  keys.v = base + KvBlockValueOffset(shape);
  keys.row_stride = shape.head_dim;
  keys.head_stride = rondo::kBlockTokens * shape.head_dim;
  keys.page_shift = std::countr_zero(static_cast<uint64_t>(rondo::kBlockTokens));
  keys.page_offsets = Upload(pages_, offsets_.data(), static_cast<int64_t>(offsets_.size()));
  keys.first_block = first_leaf;
  keys.tokens = (run.back().index - first_page) * rondo::kBlockTokens + run.back().tokens;
  return keys;
}

void CudaAttention::Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
                           const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const {
  const bool drawn = queries.kind == RowKind::kDrawn;
  RONDO_CHECK(shape.leaf_level == (drawn ? gpu_.drawn_leaf_level() : gpu_.leaf_level()) && Supports(shape).ok());
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto count = static_cast<int64_t>(nodes.size());
  AttentionArgs args;
  args.q_heads = shape.q_heads;
  args.kv_heads = shape.kv_heads;
  args.mask = {mask.causal, mask.window};
  args.score = {shape.scale, shape.score.softcap, Upload(slopes_, shape.score.alibi_slopes, shape.q_heads)};
  args.query = {UploadQueries(shape, queries, pool), int64_t{shape.q_heads} * shape.head_dim, shape.head_dim,
                queries.count, queries.first_position};
  args.keys = Keys(shape, run);
  args.nodes = NodesAt(shape, queries.count, Place<float>(nodes_, count * NodeFloats(shape, queries.count)));
  segments_.clear();
  for (int64_t row = 0; row < queries.count; row = segments_.back().end) {
    segments_.push_back(SegmentAt(mask, queries, row));
  }
  if (drawn) {
    Decode(shape, args);
  } else {
    Prefill(shape, args);
  }
  for (int64_t i = 0; i < count; ++i) CopyNode(shape, queries.count, args.nodes, i, nodes[i]);
}

// A launch for each segment of many rows.
void CudaAttention::Prefill(const AttentionShape& shape, const AttentionArgs& all) const {
  for (const Segment& segment : segments_) {
    AttentionArgs args = all;
    args.mask.visible_begin = segment.visible_begin;
    args.mask.visible_end = segment.visible_end;
    args.query = RowsOf(all.query, segment);
    args.nodes = FromRow(all.nodes, segment.begin);
    gpu_.Attend(args, shape.head_dim);
  }
}

// One launch: its sequences are the segments of these few rows, over the same keys.
void CudaAttention::Decode(const AttentionShape& shape, const AttentionArgs& all) const {
  const int64_t blocks = BlocksOf(all.keys, rondo::kBlockTokens << shape.leaf_level);
  const int64_t rows = all.query.rows;
  const NodeArgs leaves = NodesAt(shape, rows, Place<float>(leaves_, blocks * NodeFloats(shape, rows)));
  sequences_.clear();
  int64_t items = 0;
  for (const Segment& segment : segments_) {
    DecodeSequence sequence;
    sequence.query = RowsOf(all.query, segment);
    sequence.keys = all.keys;
    sequence.leaves = FromRow(leaves, segment.begin);
    sequence.nodes = FromRow(all.nodes, segment.begin);
    sequence.visible_begin = segment.visible_begin;
    sequence.visible_end = segment.visible_end;
    sequence.first_item = items;
    sequence.first_row = segment.begin;
    items += DecodeItems(sequence.query.rows, shape.q_heads, shape.kv_heads, blocks);
    sequences_.push_back(sequence);
  }
  DecodeArgs args;
  args.q_heads = all.q_heads;
  args.kv_heads = all.kv_heads;
  args.causal = all.mask.causal;
  args.window = all.mask.window;
  args.score = all.score;
  args.count = static_cast<int32_t>(sequences_.size());
  args.sequences = Upload(sequence_args_, sequences_.data(), args.count);
  args.rows = rows;
  gpu_.Decode(args, items, shape.head_dim);
}

// A node that lies in one piece, as those of the ring do, takes one copy.
void CudaAttention::CopyNode(const AttentionShape& shape, int64_t count, const NodeArgs& from, int64_t index,
                             const PartialNode& to) const {
  const int64_t states = count * shape.q_heads;
  const float* const o = from.o + index * from.o_node_stride;
  if (InOnePiece(shape, count, to)) return gpu_.Copy(to.o, o, NodeFloats(shape, count) * sizeof(float));
  gpu_.Copy(to.o, o, states * shape.head_dim * sizeof(float));
  gpu_.Copy(to.m, from.m + index * from.ml_node_stride, states * sizeof(float));
  gpu_.Copy(to.l, from.l + index * from.ml_node_stride, states * sizeof(float));
}

NodeArgs CudaAttention::NodeOnDevice(TensorBuffer& buffer, const AttentionShape& shape, int64_t count,
                                     const PartialNode& node) const {
  NodeArgs args = NodesAt(shape, count, node.o);
  if (gpu_.Owns(node.o)) {
    args.m = node.m;
    args.l = node.l;
    return args;
  }
  args = NodesAt(shape, count, Place<float>(buffer, NodeFloats(shape, count)));
  if (InOnePiece(shape, count, node)) {
    gpu_.Copy(args.o, node.o, NodeFloats(shape, count) * sizeof(float));
    return args;
  }
  const int64_t states = count * shape.q_heads;
  gpu_.Copy(args.o, node.o, states * shape.head_dim * sizeof(float));
  gpu_.Copy(args.m, node.m, states * sizeof(float));
  gpu_.Copy(args.l, node.l, states * sizeof(float));
  return args;
}

void CudaAttention::Merge(const AttentionShape& shape, int64_t count, const PartialNode& left, const PartialNode& right,
                          ThreadPool&) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const NodeArgs to = NodeOnDevice(left_, shape, count, left);
  gpu_.Merge(to, NodeOnDevice(right_, shape, count, right), count, shape.q_heads, shape.head_dim);
  if (!gpu_.Owns(left.o)) CopyNode(shape, count, to, 0, left);
}

void CudaAttention::Finish(const AttentionShape& shape, int64_t count, const PartialNode& node, float* out, float* lse,
                           ThreadPool&) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int64_t states = count * shape.q_heads;
  OutputArgs output;
  output.out = Place<float>(out_, states * shape.head_dim);
  output.out_is_float = true;
  output.row_stride = int64_t{shape.q_heads} * shape.head_dim;
  output.head_stride = shape.head_dim;
  output.lse = Place<float>(lse_, states);
  output.lse_row_stride = shape.q_heads;
  output.sinks = Upload(sinks_, shape.score.sinks, shape.q_heads);
  gpu_.Finish(NodeOnDevice(left_, shape, count, node), output, count, shape.q_heads, shape.head_dim);
  gpu_.Copy(out, output.out, states * shape.head_dim * sizeof(float));
  if (lse != nullptr) gpu_.Copy(lse, output.lse, states * sizeof(float));
}

}  // namespace rondo::cuda
