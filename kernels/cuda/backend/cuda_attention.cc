#include "kernels/cuda/backend/cuda_attention.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "base/bf16.h"
#include "base/check.h"

namespace rondo::cuda {
namespace {

// Nodes side by side: o of all, m of all, l of all; as PartialNode has them, each [count, q_heads(, head_dim)].
NodeArgs NodesAt(const AttentionShape& shape, int64_t count, int64_t nodes, float* floats) {
  const int64_t states = count * shape.q_heads;
  NodeArgs args;
  args.o = floats;
  args.m = args.o + nodes * states * shape.head_dim;
  args.l = args.m + nodes * states;
  args.o_node_stride = states * shape.head_dim;
  args.o_row_stride = int64_t{shape.q_heads} * shape.head_dim;
  args.o_head_stride = shape.head_dim;
  args.ml_node_stride = states;
  args.ml_row_stride = shape.q_heads;
  return args;
}

int64_t NodeFloats(const AttentionShape& shape, int64_t count) {
  return count * shape.q_heads * (int64_t{shape.head_dim} + 2);
}

// Rows that share an interval of packed sequences: [begin, end) of the query rows, and the positions they may see.
struct Segment {
  int64_t begin, end;
  int64_t visible_begin, visible_end;
};

Segment SegmentAt(const MaskSpec& mask, const QueryRows& queries, int64_t row) {
  constexpr int64_t kFar = int64_t{1} << 60;
  const absl::Span<const int64_t> starts = mask.sequence_starts;
  // Queries may lie before all keys; no key has a negative position.
  if (starts.empty()) return {row, queries.count, 0, kFar};
  const int64_t position = queries.first_position + row;
  const auto next = std::upper_bound(starts.begin(), starts.end(), position);
  const int64_t last = next == starts.end() ? kFar : *next;
  const int64_t end = std::min(queries.count, last - queries.first_position);
  // Outside of all sequences: nothing.
  if (next == starts.begin() || next == starts.end()) return {row, end, 0, 0};
  return {row, end, *(next - 1), *next};
}

}  // namespace

CudaAttention::CudaAttention(Gpu& gpu)
    : gpu_(gpu),
      queries_(gpu),
      pages_(gpu),
      slopes_(gpu),
      sinks_(gpu),
      nodes_(gpu),
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

const uint16_t* CudaAttention::UploadQueries(const AttentionShape& shape, const QueryRows& queries) const {
  const int64_t elements = queries.count * shape.q_heads * shape.head_dim;
  rounded_.resize(elements);
  for (int64_t i = 0; i < elements; ++i) rounded_[i] = FloatToBf16(queries.q[i]);
  return Upload(queries_, rounded_.data(), elements);
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
                           const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool&) const {
  RONDO_CHECK(shape.leaf_level == gpu_.leaf_level() && Supports(shape).ok());
  const std::lock_guard<std::mutex> lock(mutex_);
  AttentionArgs args;
  args.q_heads = shape.q_heads;
  args.kv_heads = shape.kv_heads;
  args.score = {shape.scale, shape.score.softcap, Upload(slopes_, shape.score.alibi_slopes, shape.q_heads)};
  args.keys = Keys(shape, run);
  const uint16_t* const q = UploadQueries(shape, queries);
  const auto count = static_cast<int64_t>(nodes.size());
  const NodeArgs all =
      NodesAt(shape, queries.count, count, Place<float>(nodes_, count * NodeFloats(shape, queries.count)));
  for (int64_t row = 0; row < queries.count;) {
    const Segment segment = SegmentAt(mask, queries, row);
    args.mask = {mask.causal, mask.window, segment.visible_begin, segment.visible_end};
    args.query = {q + row * all.o_row_stride, all.o_row_stride, shape.head_dim, segment.end - row,
                  queries.first_position + row};
    args.nodes = all;
    args.nodes.o += row * all.o_row_stride;
    args.nodes.m += row * all.ml_row_stride;
    args.nodes.l += row * all.ml_row_stride;
    gpu_.Attend(args, shape.head_dim);
    row = segment.end;
  }
  for (int64_t i = 0; i < count; ++i) CopyNode(shape, queries.count, all, i, nodes[i]);
}

void CudaAttention::CopyNode(const AttentionShape& shape, int64_t count, const NodeArgs& from, int64_t index,
                             const PartialNode& to) const {
  const int64_t states = count * shape.q_heads;
  gpu_.Copy(to.o, from.o + index * from.o_node_stride, states * shape.head_dim * sizeof(float));
  gpu_.Copy(to.m, from.m + index * from.ml_node_stride, states * sizeof(float));
  gpu_.Copy(to.l, from.l + index * from.ml_node_stride, states * sizeof(float));
}

NodeArgs CudaAttention::NodeOnDevice(TensorBuffer& buffer, const AttentionShape& shape, int64_t count,
                                     const PartialNode& node) const {
  NodeArgs args = NodesAt(shape, count, 1, node.o);
  if (gpu_.Owns(node.o)) {
    args.m = node.m;
    args.l = node.l;
    return args;
  }
  args = NodesAt(shape, count, 1, Place<float>(buffer, NodeFloats(shape, count)));
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
