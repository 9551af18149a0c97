// Host memory that a GPU's copies need not stage; used by ModuleGpu for rows that cross at every layer.
#pragma once

#include <mutex>
#include <unordered_set>

#include "kernels/cuda/module.h"
#include "rondo/tensor_memory.h"

namespace rondo {

// Where the system gives no more pinned memory (a limit on locked pages, say) it is ordinary, after one warning: the
// same bits, later. Any thread.
class PinnedMemory final : public TensorMemory {
 public:
  // The table lives as long as this.
  PinnedMemory(const rondo_cuda_module_v1* table, int device) : table_(table), device_(device) {}

  void* Allocate(size_t bytes) override;
  void Free(void* p, size_t bytes) override;
  bool is_host() const override { return true; }
  bool Owns(const void*) const override { return true; }
  void Copy(void* to, const void* from, size_t bytes) override { HostMemory().Copy(to, from, bytes); }

 private:
  const rondo_cuda_module_v1* const table_;
  const int device_;
  std::mutex mutex_;
  std::unordered_set<void*> pinned_;
  bool warned_ = false;
};

}  // namespace rondo
