// The attention seam on a GPU: queries and results in host memory, keys, values and nodes on the device; used by a rank
// that runs with --device cuda.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernels/cuda/backend/gpu.h"
#include "kernels/cuda/backend/segments.h"
#include "rondo/attention_kernels.h"

namespace rondo::cuda {

// Calls from several threads wait for each other.
class CudaAttention : public AttentionKernels {
 public:
  // `gpu` outlives this.
  explicit CudaAttention(Gpu& gpu);

  std::string_view name() const override { return gpu_.family(); }
  int32_t leaf_level() const override { return gpu_.leaf_level(); }
  int32_t drawn_leaf_level() const override { return gpu_.drawn_leaf_level(); }
  TensorMemory& memory() const override { return gpu_; }
  absl::Status Supports(const AttentionShape& shape) const override;

  void Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
              const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const override;
  void Merge(const AttentionShape& shape, int64_t count, const PartialNode& left, const PartialNode& right,
             ThreadPool& pool) const override;
  void Finish(const AttentionShape& shape, int64_t count, const PartialNode& node, float* out, float* lse,
              ThreadPool& pool) const override;

 private:
  // Device memory that this call fills.
  template <typename T>
  T* Place(TensorBuffer& buffer, int64_t count) const;
  // `host` on the device; null stays null.
  template <typename T>
  const T* Upload(TensorBuffer& buffer, const T* host, int64_t count) const;
  // The node itself if it lies on the device, else a copy in `buffer`.
  NodeArgs NodeOnDevice(TensorBuffer& buffer, const AttentionShape& shape, int64_t count,
                        const PartialNode& node) const;
  void CopyNode(const AttentionShape& shape, int64_t count, const NodeArgs& from, int64_t index,
                const PartialNode& to) const;

  const uint16_t* UploadQueries(const AttentionShape& shape, const QueryRows& queries, ThreadPool& pool) const;
  KeyArgs Keys(const AttentionShape& shape, absl::Span<const KvBlock> run) const;
  // The nodes of args by the kernel for many rows (given ones) or for few (drawn ones). A row's kind decides and not
  // how many come along: the first may be another kernel on another GPU, with bits of its own.
  void Prefill(const AttentionShape& shape, const AttentionArgs& args) const;
  void Decode(const AttentionShape& shape, const AttentionArgs& args) const;

  Gpu& gpu_;
  mutable std::mutex mutex_;
  mutable TensorBuffer rounded_;  // host memory
  mutable std::vector<int64_t> offsets_;
  mutable std::vector<Segment> segments_;
  mutable std::vector<DecodeSequence> sequences_;
  mutable TensorBuffer queries_, pages_, slopes_, sinks_, nodes_, leaves_, sequence_args_, left_, right_, out_, lse_;
};

}  // namespace rondo::cuda
