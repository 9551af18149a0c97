// A GPU that is not there: the CUDA kernels on the emulator, over memory that nobody else may touch; used by the tests
// of the backend and of rings on GPUs.
#pragma once

#include <atomic>
#include <limits>
#include <vector>

#include "kernels/cuda/backend/gpu.h"
#include "tests/testing/fenced_memory.h"
#include "tests/testing/simt/options.h"

namespace rondo::cuda {

// bf16, head_dim 64, canonical blocks of two KV blocks for given rows and of one, or two, for drawn ones: small, so
// that short sequences make trees. A fault of a kernel ends the program with the emulator's words.
class EmulatedGpu : public Gpu {
 public:
  explicit EmulatedGpu(simt::Options options = {}, int32_t drawn_leaf_level = 0)
      : options_(options), drawn_leaf_level_(drawn_leaf_level) {}

  // All ones: NaN until somebody writes.
  void* Allocate(size_t bytes) override;
  void Free(void* p, size_t bytes) override {
    used_ -= bytes;
    memory_.Free(p, bytes);
  }
  bool Owns(const void* p) const override { return memory_.Owns(p); }
  void Copy(void* to, const void* from, size_t bytes) override { memory_.Copy(to, from, bytes); }

  std::string_view family() const override { return "sm80"; }
  int32_t leaf_level() const override { return 1; }
  int32_t drawn_leaf_level() const override { return drawn_leaf_level_; }
  bool HasHeadDim(int32_t head_dim) const override { return head_dim == 64; }
  void Attend(AttentionArgs args, int32_t head_dim) override;
  void Decode(const DecodeArgs& args, int64_t items, int32_t head_dim) override;
  void Merge(const NodeArgs& left, const NodeArgs& right, int64_t rows, int32_t heads, int32_t head_dim) override;
  void Finish(const NodeArgs& root, const OutputArgs& output, int64_t rows, int32_t heads, int32_t head_dim) override;

  // What Attend and Decode were called for so far: the positions of their rows, and how often.
  struct Launched {
    std::vector<int64_t> attend, decode;
    int64_t attend_launches = 0, decode_launches = 0;
  };
  const Launched& launched() const { return launched_; }
  testing::FencedMemory& fenced() { return memory_; }

  size_t used() const { return used_; }
  // Allocate finds no more than that many bytes from now on.
  void set_memory(size_t bytes) { most_ = bytes; }

 private:
  testing::FencedMemory memory_;
  std::atomic<size_t> used_{0};
  std::atomic<size_t> most_{std::numeric_limits<size_t>::max()};
  simt::Options options_;
  const int32_t drawn_leaf_level_;
  Launched launched_;
};

}  // namespace rondo::cuda
