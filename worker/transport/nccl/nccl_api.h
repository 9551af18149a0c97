// NCCL as this program uses it: a table of the calls of NCCL 2.28, without an NVIDIA header; filled from libnccl.so.2
// at run time (LoadNccl), or by the fake of the tests.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/transport/device/cuda_api.h"

namespace rondo {

struct NcclComm;  // an ncclComm_t points to one

// ncclResult_t.
enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

struct NcclUniqueId {
  std::array<char, 128> bytes = {};
};

// 2.28.9 is 22809.
inline constexpr int kOldestNccl = 22800;

// As nccl.h documents each call. With `blocking` 0 every call on a communicator may return kInProgress; nothing more
// may then be called on it than CommGetAsyncError and CommAbort, until its state is kSuccess.
class NcclApi {
 public:
  virtual ~NcclApi() = default;
  virtual NcclResult GetVersion(int* version) = 0;
  virtual NcclResult GetUniqueId(NcclUniqueId* id) = 0;
  // With the configuration {blocking = 0, maxCTAs = max_ctas}; collective.
  virtual NcclResult CommInitRankConfig(NcclComm** comm, int ranks, const NcclUniqueId& id, int rank, int max_ctas) = 0;
  virtual NcclResult CommGetAsyncError(NcclComm* comm, NcclResult* state) = 0;
  virtual NcclResult CommFinalize(NcclComm* comm) = 0;  // collective
  virtual NcclResult CommDestroy(NcclComm* comm) = 0;
  virtual NcclResult CommAbort(NcclComm* comm) = 0;
  virtual NcclResult CommRegister(NcclComm* comm, std::byte* memory, size_t bytes, void** handle) = 0;
  virtual NcclResult CommDeregister(NcclComm* comm, void* handle) = 0;
  virtual NcclResult MemAlloc(std::byte** memory, size_t bytes) = 0;
  virtual NcclResult MemFree(std::byte* memory) = 0;
  virtual NcclResult GroupStart() = 0;
  virtual NcclResult GroupEnd() = 0;
  virtual NcclResult Send(const std::byte* data, size_t bytes, int peer, NcclComm* comm, CudaStream* stream) = 0;
  virtual NcclResult Recv(std::byte* data, size_t bytes, int peer, NcclComm* comm, CudaStream* stream) = 0;
  virtual std::string ErrorString(NcclResult result) = 0;
  virtual std::string LastError(NcclComm* comm) = 0;  // comm may be null
};

// `library`: a name that the loader looks up, or a path. FAILED_PRECONDITION saying what is missing: the library, or a
// call that it is too old for.
absl::StatusOr<std::unique_ptr<NcclApi>> LoadNccl(const std::string& library = "libnccl.so.2");

// OK for kSuccess and kInProgress; else INTERNAL, or UNAVAILABLE for kRemoteError: "ncclSend: remote process exited
// (details of the last error)".
absl::Status NcclStatus(NcclApi& api, NcclComm* comm, const char* call, NcclResult result);

}  // namespace rondo
