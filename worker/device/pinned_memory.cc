#include "worker/device/pinned_memory.h"

#include "base/log.h"

namespace rondo {

void* PinnedMemory::Allocate(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  void* memory = nullptr;
  // The calling thread may never have chosen a device, and would set up the first one.
  int error = table_->set_device(device_);
  if (error == 0) error = table_->pinned_alloc(&memory, bytes);
  if (error == 0) {
    pinned_.insert(memory);
    return memory;
  }
  if (!warned_) {
    LogWarning("no pinned memory for ", bytes, " bytes of rows (", table_->error_text(error),
               "): copies to the GPU and back will be slower");
  }
  warned_ = true;
  return HostMemory().Allocate(bytes);
}

void PinnedMemory::Free(void* p, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (pinned_.erase(p) > 0) {
    table_->set_device(device_);
    table_->pinned_free(p);
  } else {
    HostMemory().Free(p, bytes);
  }
}

}  // namespace rondo
