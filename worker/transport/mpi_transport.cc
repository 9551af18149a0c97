#include "worker/transport/mpi_transport.h"

#include <climits>
#include <utility>

#include "base/check.h"
#include "worker/transport/mpi_progress.h"

namespace rondo {

absl::StatusOr<std::unique_ptr<MpiTransport>> MpiTransport::Create(const MpiOptions& options) {
  RONDO_CHECK(options.chunk_bytes > 0 && options.chunk_bytes <= INT_MAX);
  auto progress = std::make_shared<Progress>(options);
  if (absl::Status started = progress->Start(); !started.ok()) {
    progress->Join();
    return started;
  }
  return std::unique_ptr<MpiTransport>(new MpiTransport(std::move(progress)));
}

MpiTransport::MpiTransport(std::shared_ptr<Progress> progress) : progress_(std::move(progress)) {}
MpiTransport::~MpiTransport() { progress_->Join(); }

absl::Status MpiTransport::Close(absl::Time deadline) { return progress_->Close(deadline); }
int MpiTransport::rank() const { return progress_->rank(); }
int MpiTransport::world_size() const { return progress_->world(); }
uint64_t MpiTransport::sent_bytes() const { return progress_->sent_bytes(); }
void MpiTransport::Abort(absl::Status reason) { progress_->Abort(std::move(reason)); }

bool MpiTransport::Ready(Pending pending) { return progress_->Ready(pending.id); }

absl::StatusOr<size_t> MpiTransport::Wait(Pending pending, absl::Time deadline) {
  return progress_->Wait(pending.id, deadline);
}

absl::StatusOr<Transport::Pending> MpiTransport::Post(absl::Span<const Transfer> transfers) {
  const absl::StatusOr<uint64_t> id = progress_->Post(transfers);
  if (!id.ok()) return id.status();
  return Pending{*id};
}

}  // namespace rondo
