#include "worker/transport/nccl/nccl_transport.h"

#include <utility>

#include "base/log.h"
#include "worker/transport/device/preflight.h"
#include "worker/transport/nccl/unique_id.h"

namespace rondo {
namespace {

constexpr absl::Duration kLastWord = absl::Seconds(5);

absl::StatusOr<RankFacts> OwnFacts(CudaApi& cuda, NcclApi& nccl, const DeviceTransportOptions& options) {
  if (absl::Status used = cuda.Use(options.device); !used.ok()) return used;
  absl::StatusOr<RankFacts> facts = GatherFacts(cuda, options.device);
  if (!facts.ok()) return facts;
  const NcclResult result = nccl.GetVersion(&facts->nccl);
  if (absl::Status status = NcclStatus(nccl, nullptr, "ncclGetVersion", result); !status.ok()) return status;
  facts->transport = "nccl";
  facts->epoch = options.epoch;
  return facts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceTransport>> MakeNcclTransport(Transport& control, CudaApi& cuda, NcclApi& nccl,
                                                                   const DeviceTransportOptions& options,
                                                                   const NcclOptions& nccl_options,
                                                                   absl::Time deadline) {
  const absl::StatusOr<RankFacts> own = OwnFacts(cuda, nccl, options);
  if (absl::Status well = AgreeAllWell(control, own.status(), deadline); !well.ok()) return well;
  const absl::StatusOr<std::vector<RankFacts>> all = ExchangeFacts(control, *own, deadline);
  if (!all.ok()) return all.status();
  if (absl::Status fits = CheckFacts(*all); !fits.ok()) return fits;
  if (control.rank() == 0) {
    for (size_t rank = 0; rank < all->size(); ++rank) {
      LogInfo(Describe((*all)[rank], static_cast<int>(rank)));
      const std::string advice = ShmAdvice((*all)[rank], static_cast<int>(rank));
      if (!advice.empty()) LogWarning(advice);
    }
  }
  const absl::StatusOr<NcclUniqueId> id = ExchangeUniqueId(control, nccl, options.epoch, deadline);
  if (absl::Status well = AgreeAllWell(control, id.status(), deadline); !well.ok()) return well;
  absl::StatusOr<std::unique_ptr<NcclPath>> path =
      NcclPath::Create(nccl, cuda, control.rank(), control.world_size(), *id, nccl_options, deadline);
  // A rank that gave up at the deadline still says so.
  if (absl::Status well = AgreeAllWell(control, path.status(), deadline + kLastWord); !well.ok()) return well;
  return DeviceTransport::Create(control, cuda, *std::move(path), options);
}

}  // namespace rondo
