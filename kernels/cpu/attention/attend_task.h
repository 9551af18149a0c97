// The two ways to attend, many rows and few, both over an instruction set's leaf functions; used by TiledAttention.
#pragma once

#include "kernels/cpu/attention/ops.h"
#include "rondo/attention_kernels.h"

namespace rondo::attention {

// One call of AttentionKernels::Attend.
struct AttendCall {
  const AttentionOps& ops;
  const AttentionShape& shape;
  const QueryRows& queries;
  absl::Span<const KvBlock> run;
  const MaskSpec& mask;
  absl::Span<const PartialNode> nodes;
  ScoreTransform score = {};  // slopes [q_heads]

  int group() const { return shape.q_heads / shape.kv_heads; }
  bool paired() const { return shape.kv_type == KvType::kBf16; }
  BlockRange blocks() const { return {run.front().index, run.back().index + 1}; }
  const KvBlock& Block(int64_t index) const { return run[static_cast<size_t>(index - run.front().index)]; }
  const std::byte* Keys(const KvBlock& block, int32_t kv_head) const {
    return block.data + KvBlockValueOffset(shape) / shape.kv_heads * kv_head;
  }
  const std::byte* Values(const KvBlock& block, int32_t kv_head) const {
    return Keys(block, kv_head) + KvBlockValueOffset(shape);
  }
  // From the first key of `block` to a query at `position`.
  int32_t Distance(int64_t position, const KvBlock& block) const;
  // scale * log2(e), rounded once: scores are in units of log2.
  float factor() const;
};

void AttendManyRows(const AttendCall& call, ThreadPool& pool);
void AttendFewRows(const AttendCall& call, ThreadPool& pool);

}  // namespace rondo::attention
