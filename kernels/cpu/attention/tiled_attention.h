// Attention over an instruction set's leaf functions: cuts the work into tasks, walks the blocks and the tree. Used by
// factories.cc.
#pragma once

#include "kernels/cpu/attention/ops.h"
#include "rondo/attention_kernels.h"

namespace rondo::attention {

class TiledAttention final : public AttentionKernels {
 public:
  TiledAttention(std::string_view name, const AttentionOps& ops) : name_(name), ops_(ops) {}

  std::string_view name() const override { return name_; }
  void Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
              const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const override;
  void Merge(const AttentionShape& shape, int64_t count, const PartialNode& left, const PartialNode& right,
             ThreadPool& pool) const override;
  void Finish(const AttentionShape& shape, int64_t count, const PartialNode& node, float* out, float* lse,
              ThreadPool& pool) const override;

 private:
  std::string_view name_;
  const AttentionOps& ops_;
};

}  // namespace rondo::attention
