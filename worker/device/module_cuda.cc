// The GPU module's table as a CudaApi.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "worker/device/gpu_module.h"

namespace rondo {
namespace {

class ModuleCuda : public CudaApi {
 public:
  explicit ModuleCuda(const rondo_cuda_module_v1& table) : table_(table) {}

  absl::Status Use(int device) override {
    return Check(table_.set_device(device), absl::StrCat("cudaSetDevice(", device, ")"));
  }
  absl::StatusOr<CudaDeviceFacts> Facts(int device) override;
  absl::StatusOr<int> DriverVersion() override {
    int version = 0;
    const absl::Status status = Check(table_.driver_version(&version), "cudaDriverGetVersion");
    return status.ok() ? absl::StatusOr<int>(version) : status;
  }

  absl::StatusOr<CudaStream*> MakeStream() override {
    return Made<CudaStream>([&](void** out) { return table_.stream_create(out, 1); }, "cudaStreamCreateWithPriority");
  }
  void Drop(CudaStream* stream) override { table_.stream_destroy(stream); }
  absl::StatusOr<CudaEvent*> MakeEvent(bool interprocess) override {
    return Made<CudaEvent>([&](void** out) { return table_.event_create(out, interprocess); }, "cudaEventCreate");
  }
  void Drop(CudaEvent* event) override { table_.event_destroy(event); }
  absl::Status Record(CudaEvent* event, CudaStream* stream) override {
    return Check(table_.event_record(event, stream), "cudaEventRecord");
  }
  absl::StatusOr<bool> Reached(CudaEvent* event) override {
    int reached = 0;
    const absl::Status status = Check(table_.event_query(event, &reached), "cudaEventQuery");
    return status.ok() ? absl::StatusOr<bool>(reached != 0) : status;
  }
  absl::Status WaitFor(CudaStream* stream, CudaEvent* event) override {
    return Check(table_.stream_wait_event(stream, event), "cudaStreamWaitEvent");
  }

  absl::StatusOr<std::byte*> MakeMemory(size_t bytes) override {
    return Made<std::byte>([&](void** out) { return table_.memory_alloc(out, bytes); },
                           absl::StrCat("cudaMalloc of ", bytes, " bytes"));
  }
  void DropMemory(std::byte* memory) override { table_.memory_free(memory); }
  absl::StatusOr<std::byte*> MakePinned(size_t bytes) override {
    return Made<std::byte>([&](void** out) { return table_.pinned_alloc(out, bytes); },
                           absl::StrCat("cudaMallocHost of ", bytes, " bytes"));
  }
  void DropPinned(std::byte* memory) override { table_.pinned_free(memory); }
  absl::StatusOr<bool> InDeviceMemory(const std::byte* memory) override {
    int is_device = 0;
    const absl::Status status = Check(table_.memory_is_device(memory, &is_device), "cudaPointerGetAttributes");
    return status.ok() ? absl::StatusOr<bool>(is_device != 0) : status;
  }
  absl::StatusOr<CudaAllocation> AllocationOf(const std::byte* memory) override {
    void* base = nullptr;
    uint64_t bytes = 0;
    const absl::Status status = Check(table_.memory_allocation(memory, &base, &bytes), "cuMemGetAddressRange");
    if (!status.ok()) return status;
    return CudaAllocation{static_cast<std::byte*>(base), bytes};
  }
  absl::Status Copy(std::byte* to, const std::byte* from, size_t bytes, CudaStream* stream) override {
    return Check(table_.copy_async(to, from, bytes, stream), "cudaMemcpyAsync");
  }

  absl::StatusOr<CudaIpcMemory> Share(const std::byte* memory) override {
    CudaIpcMemory shared;
    const absl::Status status =
        Check(table_.ipc_share_memory(memory, shared.handle.data(), &shared.offset), "cudaIpcGetMemHandle");
    return status.ok() ? absl::StatusOr<CudaIpcMemory>(shared) : status;
  }
  absl::StatusOr<std::byte*> Open(const CudaIpcMemory& memory) override {
    return Made<std::byte>([&](void** out) { return table_.ipc_open_memory(memory.handle.data(), out); },
                           "cudaIpcOpenMemHandle");
  }
  void Close(std::byte* opened) override { table_.ipc_close_memory(opened); }
  absl::StatusOr<CudaIpcEvent> Share(CudaEvent* event) override {
    CudaIpcEvent shared = {};
    const absl::Status status = Check(table_.ipc_share_event(event, shared.data()), "cudaIpcGetEventHandle");
    return status.ok() ? absl::StatusOr<CudaIpcEvent>(shared) : status;
  }
  absl::StatusOr<CudaEvent*> Open(const CudaIpcEvent& event) override {
    return Made<CudaEvent>([&](void** out) { return table_.ipc_open_event(event.data(), out); },
                           "cudaIpcOpenEventHandle");
  }

 private:
  absl::Status Check(int error, const std::string& call) {
    if (error == 0) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(call, ": ", table_.error_text(error)));
  }
  template <typename T, typename Call>
  absl::StatusOr<T*> Made(const Call& call, const std::string& name) {
    void* made = nullptr;
    const absl::Status status = Check(call(&made), name);
    if (!status.ok()) return status;
    return static_cast<T*>(made);
  }

  const rondo_cuda_module_v1& table_;
};

absl::StatusOr<CudaDeviceFacts> ModuleCuda::Facts(int device) {
  rondo_cuda_device_v1 raw = {};
  const absl::Status status = Check(table_.device_facts(device, &raw), absl::StrCat("facts of GPU ", device));
  if (!status.ok()) return status;
  CudaDeviceFacts facts;
  facts.name = std::string(raw.name, strnlen(raw.name, sizeof(raw.name)));
  std::memcpy(facts.uuid.data(), raw.uuid, sizeof(raw.uuid));
  facts.capability = raw.capability;
  facts.memory_bytes = raw.memory_bytes;
  return facts;
}

}  // namespace

std::unique_ptr<CudaApi> MakeModuleCuda(const rondo_cuda_module_v1* table) {
  return std::make_unique<ModuleCuda>(*table);
}

}  // namespace rondo
