// Memory like a device's: whoever touches it without the device's leave ends the program. Shows that the ring and the
// KV cache look inside tensors only through kernels and copies; used by their tests.
#pragma once

#include <map>
#include <mutex>

#include "rondo/attention_kernels.h"
#include "rondo/tensor_memory.h"

namespace rondo::testing {

class FencedMemory : public TensorMemory {
 public:
  ~FencedMemory() override;
  void* Allocate(size_t bytes) override;
  void Free(void* p, size_t bytes) override;
  bool is_host() const override { return false; }
  bool Owns(const void* p) const override;
  void Copy(void* to, const void* from, size_t bytes) override;

  // While one lives, the memory may be touched.
  class Opened {
   public:
    explicit Opened(FencedMemory& memory) : memory_(memory) { memory_.Protect(+1); }
    ~Opened() { memory_.Protect(-1); }

   private:
    FencedMemory& memory_;
  };

  int64_t copies() const { return copies_; }

 private:
  void Protect(int change);

  mutable std::mutex mutex_;
  std::map<const std::byte*, size_t> ranges_;  // whole pages
  int opened_ = 0;
  int64_t copies_ = 0;
};

// The kernels `inner` over tensors in `memory`. Both outlive it.
class FencedKernels : public AttentionKernels {
 public:
  FencedKernels(const AttentionKernels& inner, FencedMemory& memory) : inner_(inner), memory_(memory) {}
  std::string_view name() const override { return "fenced"; }
  int32_t leaf_level() const override { return inner_.leaf_level(); }
  int32_t drawn_leaf_level() const override { return inner_.drawn_leaf_level(); }
  TensorMemory& memory() const override { return memory_; }
  void Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
              const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const override;
  void Merge(const AttentionShape& shape, int64_t count, const PartialNode& left, const PartialNode& right,
             ThreadPool& pool) const override;
  void Finish(const AttentionShape& shape, int64_t count, const PartialNode& node, float* out, float* lse,
              ThreadPool& pool) const override;

 private:
  const AttentionKernels& inner_;
  FencedMemory& memory_;
};

}  // namespace rondo::testing
