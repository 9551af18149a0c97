#include "worker/transport/mpi_wire.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rondo {
namespace {

constexpr uint64_t kTagPeriod = 16384;  // 2 * kTagPeriod - 1 = 32767, the tag every MPI has

}  // namespace

absl::Status MpiStatus(int code, const char* what) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::UnavailableError(absl::StrCat(what, ": ", absl::string_view(text, length)));
}

absl::Status MpiTransport::Progress::Wire::Start(const Transfer& transfer, Operation* operation) {
  auto message = std::make_shared<Message>();
  message->transfer = transfer;
  message->operation = operation;
  Peer& peer = peers_[transfer.peer];
  const bool send = transfer.kind == Transfer::Kind::kSend;
  message->tag = static_cast<int>(2 * ((send ? peer.sent++ : peer.received++) % kTagPeriod));
  if (absl::Status posted = PostEnvelope(message); !posted.ok() || !send) return posted;
  message->has_length = true;
  message->length = transfer.size;
  return PostPieces(message);
}

absl::Status MpiTransport::Progress::Wire::PostEnvelope(std::shared_ptr<Message> message) {
  const Transfer& t = message->transfer;
  const bool send = t.kind == Transfer::Kind::kSend;
  const uint64_t length = t.size;
  // A receiver does not know the length yet, and the sender may break its word.
  const size_t inline_bytes = send ? (t.size <= kInlineBytes ? t.size : 0) : kInlineBytes;
  const int count = static_cast<int>(sizeof(length) + inline_bytes);
  message->envelope = std::make_unique_for_overwrite<std::byte[]>(count);
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  if (send) {
    std::memcpy(message->envelope.get(), &length, sizeof(length));
    if (inline_bytes > 0) std::memcpy(message->envelope.get() + sizeof(length), t.data, inline_bytes);
    code = MPI_Isend(message->envelope.get(), count, MPI_BYTE, t.peer, message->tag, comm_, &request);
  } else {
    code = MPI_Irecv(message->envelope.get(), count, MPI_BYTE, t.peer, message->tag, comm_, &request);
  }
  if (code != MPI_SUCCESS) return MpiStatus(code, Describe(t).c_str());
  Add(request, message);
  return absl::OkStatus();
}

absl::Status MpiTransport::Progress::Wire::PostPieces(const std::shared_ptr<Message>& message) {
  if (message->length <= kInlineBytes) return absl::OkStatus();
  const Transfer& t = message->transfer;
  for (size_t begin = 0; begin < message->length; begin += chunk_bytes_) {
    const int count = static_cast<int>(std::min(chunk_bytes_, message->length - begin));
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = t.kind == Transfer::Kind::kSend
                         ? MPI_Isend(t.data + begin, count, MPI_BYTE, t.peer, message->tag + 1, comm_, &request)
                         : MPI_Irecv(t.data + begin, count, MPI_BYTE, t.peer, message->tag + 1, comm_, &request);
    if (code != MPI_SUCCESS) return MpiStatus(code, Describe(t).c_str());
    Add(request, message);
  }
  moving_bytes_ += message->length;
  return absl::OkStatus();
}

void MpiTransport::Progress::Wire::Add(MPI_Request request, const std::shared_ptr<Message>& message) {
  ++message->requests;
  requests_.push_back(request);
  owners_.push_back(message);
}

absl::Status MpiTransport::Progress::Wire::Completed(const std::shared_ptr<Message>& message) {
  if (--message->requests > 0 || message->has_length) return absl::OkStatus();
  uint64_t length = 0;
  std::memcpy(&length, message->envelope.get(), sizeof(length));
  message->has_length = true;
  message->length = length;
  if (absl::Status fits = CheckSize(message->transfer, length); !fits.ok()) return fits;
  if (length > 0 && length <= kInlineBytes) {
    std::memcpy(message->transfer.data, message->envelope.get() + sizeof(length), length);
  }
  return PostPieces(message);
}

absl::StatusOr<bool> MpiTransport::Progress::Wire::Poll(
    const std::function<void(Operation*, size_t received)>& finished) {
  if (requests_.empty()) return false;
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int code =
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, indices_.data(), statuses_.data());
  if (code == MPI_ERR_IN_STATUS) {
    for (int i = 0; i < count; ++i) {
      const std::string what = Describe(owners_[indices_[i]]->transfer);
      if (statuses_[i].MPI_ERROR != MPI_SUCCESS) return MpiStatus(statuses_[i].MPI_ERROR, what.c_str());
    }
  }
  if (code != MPI_SUCCESS) return MpiStatus(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return false;
  std::vector<std::shared_ptr<Message>> completed;
  for (int i = 0; i < count; ++i) completed.push_back(std::move(owners_[indices_[i]]));
  // MPI has set the completed requests to MPI_REQUEST_NULL; close the gaps before new ones are added.
  size_t kept = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    owners_[kept++] = std::move(owners_[i]);
  }
  requests_.resize(kept);
  owners_.resize(kept);
  for (const std::shared_ptr<Message>& message : completed) {
    if (absl::Status status = Completed(message); !status.ok()) return status;
    if (message->requests > 0) continue;
    if (message->length > kInlineBytes) moving_bytes_ -= message->length;
    finished(message->operation, message->transfer.kind == Transfer::Kind::kRecv ? message->length : 0);
  }
  return true;
}

}  // namespace rondo
