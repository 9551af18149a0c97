// Attention by the textbook: softmax of each row over the keys it sees, in double, and its nodes rounded to float.
// Used by tests and by those who ask for accuracy (RONDO_KERNELS=ref).
#pragma once

#include "rondo/attention_kernels.h"

namespace rondo {

class AttentionRef final : public AttentionKernels {
 public:
  std::string_view name() const override { return "ref"; }
  void Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
              const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const override;
  void Merge(const AttentionShape& shape, int64_t count, const PartialNode& left, const PartialNode& right,
             ThreadPool& pool) const override;
  void Finish(const AttentionShape& shape, int64_t count, const PartialNode& node, float* out, float* lse,
              ThreadPool& pool) const override;
};

}  // namespace rondo
