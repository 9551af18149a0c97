#include "worker/transport/nccl/unique_id.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace rondo {
namespace {

struct IdMessage {
  uint64_t epoch = 0;
  int64_t result = 0;  // of ncclGetUniqueId on rank 0
  NcclUniqueId id;
};
static_assert(sizeof(IdMessage) == 144);

}  // namespace

absl::StatusOr<NcclUniqueId> ExchangeUniqueId(Transport& control, NcclApi& nccl, uint64_t epoch, absl::Time deadline) {
  IdMessage message;
  absl::Status drawn;
  if (control.rank() == 0) {
    message.epoch = epoch;
    const NcclResult result = nccl.GetUniqueId(&message.id);
    message.result = static_cast<int64_t>(result);
    drawn = NcclStatus(nccl, nullptr, "ncclGetUniqueId", result);
  }
  // Also after a failure of rank 0: the others wait for it.
  absl::Status sent =
      control.Broadcast(0, control.world_size(), {reinterpret_cast<std::byte*>(&message), sizeof(message)}, deadline);
  if (!drawn.ok()) return drawn;
  if (!sent.ok()) return sent;
  if (message.epoch != epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat("NCCL unique id of epoch ", message.epoch, " from rank 0 refused: this rank is of epoch ", epoch));
  }
  if (message.result != 0) return absl::UnavailableError("rank 0 could not draw an NCCL unique id");
  return message.id;
}

}  // namespace rondo
