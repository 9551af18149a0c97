// The table filled from libnccl.so.2.
#include <dlfcn.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "worker/transport/nccl/nccl_abi.h"
#include "worker/transport/nccl/nccl_api.h"

namespace rondo {
namespace {

// Pointers with the names of the calls, without "nccl".
struct Symbols {
  int (*GetVersion)(int*) = nullptr;
  int (*GetUniqueId)(NcclAbiUniqueId*) = nullptr;
  int (*CommInitRankConfig)(NcclComm**, int, NcclAbiUniqueId, int, NcclAbiConfig*) = nullptr;
  int (*CommGetAsyncError)(NcclComm*, int*) = nullptr;
  int (*CommFinalize)(NcclComm*) = nullptr;
  int (*CommDestroy)(NcclComm*) = nullptr;
  int (*CommAbort)(NcclComm*) = nullptr;
  int (*CommRegister)(NcclComm*, void*, size_t, void**) = nullptr;
  int (*CommDeregister)(NcclComm*, void*) = nullptr;
  int (*MemAlloc)(void**, size_t) = nullptr;
  int (*MemFree)(void*) = nullptr;
  int (*GroupStart)() = nullptr;
  int (*GroupEnd)() = nullptr;
  int (*Send)(const void*, size_t, int, int, NcclComm*, CudaStream*) = nullptr;
  int (*Recv)(void*, size_t, int, int, NcclComm*, CudaStream*) = nullptr;
  const char* (*GetErrorString)(int) = nullptr;
  const char* (*GetLastError)(NcclComm*) = nullptr;
};

NcclResult Result(int code) { return static_cast<NcclResult>(code); }

class LoadedNccl : public NcclApi {
 public:
  explicit LoadedNccl(const Symbols& symbols) : call_(symbols) {}

  NcclResult GetVersion(int* version) override { return Result(call_.GetVersion(version)); }
  NcclResult GetUniqueId(NcclUniqueId* id) override {
    NcclAbiUniqueId raw;
    const int code = call_.GetUniqueId(&raw);
    std::memcpy(id->bytes.data(), raw.internal, sizeof(raw.internal));
    return Result(code);
  }
  NcclResult CommInitRankConfig(NcclComm** comm, int ranks, const NcclUniqueId& id, int rank, int max_ctas) override {
    NcclAbiUniqueId raw;
    std::memcpy(raw.internal, id.bytes.data(), sizeof(raw.internal));
    NcclAbiConfig config;
    config.blocking = 0;
    config.max_ctas = max_ctas;
    return Result(call_.CommInitRankConfig(comm, ranks, raw, rank, &config));
  }
  NcclResult CommGetAsyncError(NcclComm* comm, NcclResult* state) override {
    int raw = 0;
    const int code = call_.CommGetAsyncError(comm, &raw);
    *state = Result(raw);
    return Result(code);
  }
  NcclResult CommFinalize(NcclComm* comm) override { return Result(call_.CommFinalize(comm)); }
  NcclResult CommDestroy(NcclComm* comm) override { return Result(call_.CommDestroy(comm)); }
  NcclResult CommAbort(NcclComm* comm) override { return Result(call_.CommAbort(comm)); }
  NcclResult CommRegister(NcclComm* comm, std::byte* memory, size_t bytes, void** handle) override {
    return Result(call_.CommRegister(comm, memory, bytes, handle));
  }
  NcclResult CommDeregister(NcclComm* comm, void* handle) override {
    return Result(call_.CommDeregister(comm, handle));
  }
  NcclResult MemAlloc(std::byte** memory, size_t bytes) override {
    void* raw = nullptr;
    const int code = call_.MemAlloc(&raw, bytes);
    *memory = static_cast<std::byte*>(raw);
    return Result(code);
  }
  NcclResult MemFree(std::byte* memory) override { return Result(call_.MemFree(memory)); }
  NcclResult GroupStart() override { return Result(call_.GroupStart()); }
  NcclResult GroupEnd() override { return Result(call_.GroupEnd()); }
  NcclResult Send(const std::byte* data, size_t bytes, int peer, NcclComm* comm, CudaStream* stream) override {
    return Result(call_.Send(data, bytes, kNcclAbiUint8, peer, comm, stream));
  }
  NcclResult Recv(std::byte* data, size_t bytes, int peer, NcclComm* comm, CudaStream* stream) override {
    return Result(call_.Recv(data, bytes, kNcclAbiUint8, peer, comm, stream));
  }
  std::string ErrorString(NcclResult result) override { return call_.GetErrorString(static_cast<int>(result)); }
  std::string LastError(NcclComm* comm) override {
    const char* const text = call_.GetLastError(comm);
    return text == nullptr ? "" : text;
  }

 private:
  const Symbols call_;
};

// Fills `pointer`; else says which call is missing.
template <typename Function>
absl::Status Find(void* library, const char* name, Function*& pointer) {
  pointer = reinterpret_cast<Function*>(dlsym(library, name));
  if (pointer != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("NCCL has no ", name, ": Rondo needs NCCL 2.28 or newer"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclApi>> LoadNccl(const std::string& name) {
  // Never closed: NCCL leaves threads behind.
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return absl::FailedPreconditionError(absl::StrCat("NCCL is missing: ", why == nullptr ? name.c_str() : why));
  }
  Symbols s;
  const absl::Status found[] = {
      Find(library, "ncclGetVersion", s.GetVersion),
      Find(library, "ncclGetUniqueId", s.GetUniqueId),
      Find(library, "ncclCommInitRankConfig", s.CommInitRankConfig),
      Find(library, "ncclCommGetAsyncError", s.CommGetAsyncError),
      Find(library, "ncclCommFinalize", s.CommFinalize),
      Find(library, "ncclCommDestroy", s.CommDestroy),
      Find(library, "ncclCommAbort", s.CommAbort),
      Find(library, "ncclCommRegister", s.CommRegister),
      Find(library, "ncclCommDeregister", s.CommDeregister),
      Find(library, "ncclMemAlloc", s.MemAlloc),
      Find(library, "ncclMemFree", s.MemFree),
      Find(library, "ncclGroupStart", s.GroupStart),
      Find(library, "ncclGroupEnd", s.GroupEnd),
      Find(library, "ncclSend", s.Send),
      Find(library, "ncclRecv", s.Recv),
      Find(library, "ncclGetErrorString", s.GetErrorString),
      Find(library, "ncclGetLastError", s.GetLastError),
  };
  for (const absl::Status& status : found) {
    if (!status.ok()) return status;
  }
  auto api = std::make_unique<LoadedNccl>(s);
  int version = 0;
  if (absl::Status status = NcclStatus(*api, nullptr, "ncclGetVersion", api->GetVersion(&version)); !status.ok()) {
    return status;
  }
  if (version < kOldestNccl) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " is NCCL ", version, ", Rondo needs ", kOldestNccl, " (2.28) or newer"));
  }
  return api;
}

absl::Status NcclStatus(NcclApi& api, NcclComm* comm, const char* call, NcclResult result) {
  if (result == NcclResult::kSuccess || result == NcclResult::kInProgress) return absl::OkStatus();
  const std::string last = api.LastError(comm);
  const std::string text =
      absl::StrCat(call, ": ", api.ErrorString(result), last.empty() ? "" : absl::StrCat(" (", last, ")"));
  return result == NcclResult::kRemoteError ? absl::UnavailableError(text) : absl::InternalError(text);
}

}  // namespace rondo
