// One GPU by the module's table, as the attention kernels' host side wants it; used by worker/main.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/backend/gpu.h"
#include "kernels/cuda/module.h"
#include "worker/device/free_ranges.h"
#include "worker/device/pinned_memory.h"

namespace rondo {

// Memory that was freed is kept for the next who wants some, and given back only when the device has no more: a peer on
// the same machine may still have it open (cuda-ipc), and cudaFree waits for the whole device.
class ModuleGpu : public cuda::Gpu {
 public:
  // The table lives as long as this. INTERNAL with the device's words.
  static absl::StatusOr<std::unique_ptr<ModuleGpu>> Create(const rondo_cuda_module_v1* table, int device);
  ~ModuleGpu() override;

  uint64_t free_bytes() const;  // of the device, now
  // "NVIDIA H200 with 132 multiprocessors": what libraries choose their algorithms by.
  const std::string& card() const { return card_; }

  // For those who launch other kernels in order with these: the stream, and what comes before and after.
  void* stream() const { return stream_; }
  void Use() const;  // this thread's calls are for this device from now on
  static void CheckLaunch(const char* words, const char* kernel);

  // So many multiprocessors for others: attention's CTAs stay until they are done and would keep NCCL's waiting.
  void LeaveMultiprocessors(int32_t count) { left_ = count; }

  // Takes so much from the device now, for Allocate to cut large pieces from. False: it has not got that much. For
  // sequences whose memory peers open, which is never given back: else one of a new size would find none.
  bool Reserve(size_t bytes);

  // Asked with the address of an allocation before it is given back to the device: whether it may be. Called by the
  // thread that allocates.
  void BeforeFree(std::function<bool(void* memory)> ask) { ask_before_free_ = std::move(ask); }

  void* Allocate(size_t bytes) override;
  void Free(void* p, size_t bytes) override;
  bool Owns(const void* p) const override;
  void Copy(void* to, const void* from, size_t bytes) override;
  void CopyAll(std::span<const MemoryCopy> copies) override;
  TensorMemory& staging() override { return pinned_; }

  // By capability: what tensor cores add in which order is the generation's own, though the code is the same.
  std::string_view family() const override { return family_; }
  int32_t leaf_level() const override { return table_->leaf_level; }
  int32_t drawn_leaf_level() const override { return table_->drawn_leaf_level; }
  bool HasHeadDim(int32_t head_dim) const override;
  void Attend(cuda::AttentionArgs args, int32_t head_dim) override;
  void Decode(const cuda::DecodeArgs& args, int64_t items, int32_t head_dim) override;
  void Merge(const cuda::NodeArgs& left, const cuda::NodeArgs& right, int64_t rows, int32_t heads,
             int32_t head_dim) override;
  void Finish(const cuda::NodeArgs& root, const cuda::OutputArgs& output, int64_t rows, int32_t heads,
              int32_t head_dim) override;

 private:
  ModuleGpu(const rondo_cuda_module_v1* table, int device) : table_(table), device_(device), pinned_(table, device) {}
  absl::Status ChooseKernels(int32_t capability);
  void Check(int error, const char* call) const;
  FreeRanges& RangesFor(size_t bytes);
  bool AddStretch(FreeRanges& ranges, size_t bytes);
  void* Scratch(size_t bytes);  // of attention; grows
  void ReleaseIdle();

  const rondo_cuda_module_v1* table_;
  const int device_;
  PinnedMemory pinned_;
  std::string family_;  // "sm90"
  std::string card_;
  int32_t attend_capability_ = 0;  // whose prefill kernel serves
  std::vector<int> head_dims_;     // of which it can run the kernels
  int32_t multiprocessors_ = 0;
  int32_t left_ = 0;  // of those, for others
  void* stream_ = nullptr;
  void* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
  std::function<bool(void* memory)> ask_before_free_;
  mutable std::mutex mutex_;
  FreeRanges small_, large_;  // what Allocate cuts from, by the size asked for
};

}  // namespace rondo
