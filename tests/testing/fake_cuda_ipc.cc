// Sharing between the fake's processes: a handle is the address and its owner, and only what was opened may be touched.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/testing/fake_cuda.h"

namespace rondo::testing {
namespace {

struct Handle {
  FakeCuda* owner = nullptr;
  std::byte* base = nullptr;
  size_t bytes = 0;
};

}  // namespace

absl::StatusOr<CudaIpcMemory> FakeCuda::Share(const std::byte* memory) {
  std::lock_guard lock(host_.mutex);
  const Allocation* const allocation = Find(memory, 1);
  if (allocation == nullptr || allocation->kind != Kind::kDevice) {
    return absl::InternalError("cudaIpcGetMemHandle: invalid argument");
  }
  CudaIpcMemory shared;
  const Handle handle{this, allocation->bytes.get(), allocation->size};
  std::memcpy(shared.handle.data(), &handle, sizeof(handle));
  shared.offset = static_cast<uint64_t>(memory - handle.base);
  return shared;
}

absl::StatusOr<std::byte*> FakeCuda::Open(const CudaIpcMemory& memory) {
  Handle handle;
  std::memcpy(&handle, memory.handle.data(), sizeof(handle));
  // As cudaIpcOpenMemHandle.
  if (handle.owner == this) return absl::InternalError("cudaIpcOpenMemHandle: invalid device context");
  std::lock_guard lock(host_.mutex);
  if (!handle.owner->allocations_.contains(handle.base)) {
    return absl::InternalError("cudaIpcOpenMemHandle: invalid resource handle");
  }
  auto& [bytes, times] = opened_[handle.base];
  bytes = handle.bytes;
  if (++times > 1) host_.Violation("memory of another process was opened twice");
  ++host_.opened[handle.base];
  return handle.base;
}

void FakeCuda::Close(std::byte* opened) {
  std::lock_guard lock(host_.mutex);
  if (opened_.erase(opened) == 0) {
    host_.Violation("memory was closed that was not open");
  } else if (--host_.opened[opened] == 0) {
    host_.opened.erase(opened);
  }
}

absl::StatusOr<CudaIpcEvent> FakeCuda::Share(CudaEvent* event) {
  const std::shared_ptr<Event> known = EventOf(event);
  if (!known->interprocess) return absl::InternalError("cudaIpcGetEventHandle: invalid argument");
  CudaIpcEvent shared = {};
  const FakeCuda* const self = this;
  std::memcpy(shared.data(), &self, sizeof(self));
  std::memcpy(shared.data() + sizeof(self), &event, sizeof(event));
  return shared;
}

absl::StatusOr<CudaEvent*> FakeCuda::Open(const CudaIpcEvent& shared) {
  FakeCuda* owner = nullptr;
  CudaEvent* event = nullptr;
  std::memcpy(&owner, shared.data(), sizeof(owner));
  std::memcpy(&event, shared.data() + sizeof(owner), sizeof(event));
  if (owner == this) return absl::InternalError("cudaIpcOpenEventHandle: invalid device context");
  std::lock_guard lock(host_.mutex);
  const auto found = owner->events_.find(event);
  if (found == owner->events_.end()) return absl::InternalError("cudaIpcOpenEventHandle: invalid resource handle");
  // The opener's own handle of the same event.
  auto* const handle = reinterpret_cast<CudaEvent*>(reinterpret_cast<char*>(found->second.get()) + 1);
  if (!events_.emplace(handle, found->second).second) host_.Violation("an event of another process was opened twice");
  return handle;
}

}  // namespace rondo::testing
