#include "worker/device/gpu_transport.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "worker/transport/cuda_ipc/cuda_ipc_transport.h"
#include "worker/transport/nccl/nccl_transport.h"

namespace rondo {

absl::Status AgreeOnPlace(RankChoice own, Transport& control, absl::Time deadline) {
  std::vector<RankChoice> all(control.world_size());
  all[control.rank()] = own;
  std::vector<absl::Span<std::byte>> parts;
  for (RankChoice& one : all) parts.push_back({reinterpret_cast<std::byte*>(&one), sizeof(one)});
  if (absl::Status gathered = control.AllGather(parts, deadline); !gathered.ok()) return gathered;
  const auto device = [](const RankChoice& choice) { return choice.cuda ? "a GPU" : "its CPU"; };
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].cuda != all[0].cuda) {
      return absl::FailedPreconditionError(absl::StrCat("rank 0 computes on ", device(all[0]), " and rank ", rank,
                                                        " on ", device(all[rank]),
                                                        ", whose bits differ; give all ranks the same --device"));
    }
    if (all[rank].transport != all[0].transport) {
      return absl::FailedPreconditionError(absl::StrCat("rank 0 chose the transport ", Name(all[0].transport),
                                                        " and rank ", rank, " ", Name(all[rank].transport),
                                                        "; give all ranks the same --transport"));
    }
  }
  return absl::OkStatus();
}

uint64_t EpochOf(const std::string& launch_id) {
  uint64_t epoch = 0;
  (void)absl::SimpleHexAtoi(launch_id.substr(0, 16), &epoch);
  return epoch;
}

absl::StatusOr<GpuTransport> MakeGpuTransport(TransportKind kind, int device, Transport& control, CudaApi& cuda,
                                              const std::string& launch_id, absl::Time deadline) {
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
