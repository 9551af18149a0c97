#include "worker/device/gpu_transport.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "worker/transport/cuda_ipc/cuda_ipc_transport.h"
#include "worker/transport/nccl/nccl_transport.h"

namespace rondo {
namespace {

// `auto` looks at its own machine alone, so two machines may come to different answers.
absl::Status AgreeOnKind(TransportKind kind, Transport& control, absl::Time deadline) {
  std::vector<TransportKind> kinds(control.world_size());
  kinds[control.rank()] = kind;
  std::vector<absl::Span<std::byte>> parts;
  for (TransportKind& one : kinds) parts.push_back({reinterpret_cast<std::byte*>(&one), sizeof(one)});
  if (absl::Status gathered = control.AllGather(parts, deadline); !gathered.ok()) return gathered;
  for (size_t rank = 1; rank < kinds.size(); ++rank) {
    if (kinds[rank] == kinds[0]) continue;
    return absl::FailedPreconditionError(absl::StrCat("rank 0 chose the transport ", Name(kinds[0]), " and rank ", rank,
                                                      " ", Name(kinds[rank]), "; give all ranks the same --transport"));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t EpochOf(const std::string& launch_id) {
  uint64_t epoch = 0;
  (void)absl::SimpleHexAtoi(launch_id.substr(0, 16), &epoch);
  return epoch;
}

absl::StatusOr<GpuTransport> MakeGpuTransport(TransportKind kind, int device, Transport& control, CudaApi& cuda,
                                              const std::string& launch_id, absl::Time deadline) {
  if (absl::Status agreed = AgreeOnKind(kind, control, deadline); !agreed.ok()) return agreed;
  const DeviceTransportOptions options{.device = device, .epoch = EpochOf(launch_id)};
  GpuTransport made;
  absl::StatusOr<std::unique_ptr<DeviceTransport>> transport = absl::InternalError("no such transport on a GPU");
  if (kind == TransportKind::kNccl) {
    absl::StatusOr<std::unique_ptr<NcclApi>> nccl = LoadNccl();
    if (!nccl.ok()) return nccl.status();
    made.nccl = *std::move(nccl);
    transport = MakeNcclTransport(control, cuda, *made.nccl, options, NcclOptions{}, deadline);
  } else if (kind == TransportKind::kCudaIpc) {
    transport = MakeCudaIpcTransport(control, cuda, options, deadline);
  } else if (kind == TransportKind::kMpi) {
    transport = DeviceTransport::Create(control, cuda, nullptr, options);
  }
  if (!transport.ok()) return transport.status();
  made.transport = *std::move(transport);
  return made;
}

}  // namespace rondo
