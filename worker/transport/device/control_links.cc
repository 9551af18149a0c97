#include "worker/transport/device/control_links.h"

#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"

namespace rondo {
namespace {

// Memory that a transport may write to until the process ends.
void KeepForGood(std::vector<std::byte> buffer) {
  static std::mutex* const mutex = new std::mutex;
  static std::vector<std::vector<std::byte>>* const kept = new std::vector<std::vector<std::byte>>;
  std::lock_guard lock(*mutex);
  kept->push_back(std::move(buffer));
}

}  // namespace

ControlLinks::ControlLinks(Transport& control, uint64_t epoch)
    : control_(control), epoch_(epoch), peers_(control.world_size()) {}

ControlLinks::~ControlLinks() {
  for (Peer& peer : peers_) {
    if (peer.listening) KeepForGood(std::move(peer.buffer));
  }
  for (const std::unique_ptr<Outgoing>& message : outgoing_) KeepForGood(std::move(message->bytes));
}

absl::Status ControlLinks::Start() {
  for (int from = 0; from < control_.world_size(); ++from) {
    if (from == control_.rank()) continue;
    peers_[from].buffer.resize(sizeof(ControlHeader) + kMostBody);
    if (absl::Status status = Listen(from); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ControlLinks::Listen(int from) {
  Peer& peer = peers_[from];
  peer.listening = false;
  const auto posted = control_.SendRecv(Transport::kNobody, {}, from, absl::MakeSpan(peer.buffer));
  if (!posted.ok()) return posted.status();
  peer.pending = *posted;
  peer.listening = true;
  return absl::OkStatus();
}

absl::Status ControlLinks::Send(int to, ControlKind kind, uint64_t number, uint64_t bytes,
                                absl::Span<const std::byte> body) {
  RONDO_CHECK(body.size() <= kMostBody);
  auto message = std::make_unique<Outgoing>();
  message->to = to;
  const ControlHeader header{.kind = kind, .epoch = epoch_, .number = number, .bytes = bytes};
  message->bytes.resize(sizeof(header) + body.size());
  std::memcpy(message->bytes.data(), &header, sizeof(header));
  if (!body.empty()) std::memcpy(message->bytes.data() + sizeof(header), body.data(), body.size());
  const auto posted = control_.SendRecv(to, message->bytes, Transport::kNobody, {});
  if (!posted.ok()) return posted.status();
  message->pending = *posted;
  outgoing_.push_back(std::move(message));
  return absl::OkStatus();
}

absl::Status ControlLinks::SendPayload(int to, uint64_t number, absl::Span<const std::byte> data) {
  if (absl::Status sent = Send(to, ControlKind::kPayload, number, data.size()); !sent.ok()) return sent;
  auto message = std::make_unique<Outgoing>();
  message->to = to;
  message->payload = true;
  message->number = number;
  const auto posted = control_.SendRecv(to, data, Transport::kNobody, {});
  if (!posted.ok()) return posted.status();
  message->pending = *posted;
  outgoing_.push_back(std::move(message));
  return absl::OkStatus();
}

absl::StatusOr<bool> ControlLinks::Poll(Receiver& receiver) {
  bool moved = false;
  for (size_t i = 0; i < outgoing_.size();) {
    if (!control_.Ready(outgoing_[i]->pending)) {
      ++i;
      continue;
    }
    const std::unique_ptr<Outgoing> message = std::move(outgoing_[i]);
    outgoing_.erase(outgoing_.begin() + static_cast<ptrdiff_t>(i));
    moved = true;
    if (const auto sent = control_.Wait(message->pending, absl::InfiniteFuture()); !sent.ok()) return sent.status();
    if (message->payload) receiver.OnPayloadSent(message->to, message->number);
  }
  for (int from = 0; from < control_.world_size(); ++from) {
    while (peers_[from].listening && control_.Ready(peers_[from].pending)) {
      moved = true;
      peers_[from].listening = false;
      const auto size = control_.Wait(peers_[from].pending, absl::InfiniteFuture());
      if (!size.ok()) return size.status();
      if (absl::Status taken = Take(from, *size, receiver); !taken.ok()) return taken;
    }
  }
  return moved;
}

absl::Status ControlLinks::Take(int from, size_t size, Receiver& receiver) {
  Peer& peer = peers_[from];
  if (peer.in_payload) {
    peer.in_payload = false;
    if (size != peer.payload.bytes) {
      return absl::InternalError(
          absl::StrCat("payload from rank ", from, ": expected ", peer.payload.bytes, " bytes, got ", size));
    }
    if (absl::Status taken = receiver.OnPayload(from, peer.payload.number); !taken.ok()) return taken;
    return Listen(from);
  }
  ControlHeader header;
  if (size >= sizeof(header)) std::memcpy(&header, peer.buffer.data(), sizeof(header));
  if (size < sizeof(header) || header.magic != ControlHeader::kMagic) {
    return absl::InternalError(absl::StrCat("control message from rank ", from, " of ", size, " bytes is none"));
  }
  if (header.epoch != epoch_) {
    return absl::FailedPreconditionError(absl::StrCat("control message from rank ", from, " is of epoch ", header.epoch,
                                                      ", this rank is of epoch ", epoch_));
  }
  if (header.kind == ControlKind::kPayload) {
    const absl::StatusOr<std::byte*> place = receiver.PayloadPlace(from, header);
    if (!place.ok()) return place.status();
    const auto posted =
        control_.SendRecv(Transport::kNobody, {}, from, absl::MakeSpan(*place, static_cast<size_t>(header.bytes)));
    if (!posted.ok()) return posted.status();
    peer.pending = *posted;
    peer.payload = header;
    peer.listening = peer.in_payload = true;
    return absl::OkStatus();
  }
  peer.said_bye = header.kind == ControlKind::kBye;
  const absl::Span<const std::byte> body(peer.buffer.data() + sizeof(header), size - sizeof(header));
  if (absl::Status taken = receiver.OnMessage(from, header, body); !taken.ok()) return taken;
  return peer.said_bye ? absl::OkStatus() : Listen(from);
}

void ControlLinks::Drain() {
  for (Peer& peer : peers_) {
    if (peer.listening) (void)control_.Wait(peer.pending, absl::InfinitePast());
  }
  for (const std::unique_ptr<Outgoing>& message : outgoing_) {
    (void)control_.Wait(message->pending, absl::InfinitePast());
  }
}

bool ControlLinks::quiet() const {
  for (int from = 0; from < control_.world_size(); ++from) {
    if (from != control_.rank() && !peers_[from].said_bye) return false;
  }
  return outgoing_.empty();
}

}  // namespace rondo
