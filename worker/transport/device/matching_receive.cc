// What becomes of a message that has been announced: by where it comes from and where it is to go.
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/transport/device/matching.h"

namespace rondo {
namespace {

using Kind = ControlKind;

}  // namespace

absl::Status DeviceTransport::Matching::OnMessage(int from, const ControlHeader& header,
                                                  absl::Span<const std::byte> body) {
  Peer& peer = peers_[from];
  if (header.kind == Kind::kAbort) {
    peer.failed = true;
    engine_.PeerFailed(from, std::string(reinterpret_cast<const char*>(body.data()), body.size()));
    return absl::OkStatus();
  }
  if (ending_ || header.kind == Kind::kBye) return absl::OkStatus();
  if (header.kind == Kind::kAccept || header.kind == Kind::kTaken) {
    const auto found = peer.sending.find(header.number);
    if (found == peer.sending.end()) {
      return absl::InternalError(
          absl::StrCat("rank ", from, " answers message ", header.number, ", which it was not sent"));
    }
    Part& part = *found->second;
    if (header.kind == Kind::kAccept) {
      part.accepted = true;
      return part.staged ? SendPayload(part) : absl::OkStatus();
    }
    peer.sending.erase(found);
    engine_.path()->Taken(part.move);
    Finish(part);
    return absl::OkStatus();
  }
  if (header.number != peer.received) {
    return absl::InternalError(
        absl::StrCat("message from rank ", from, ": expected number ", peer.received, ", got ", header.number));
  }
  ++peer.received;
  peer.arrived.push_back({header, {body.begin(), body.end()}});
  return Match(from);
}

absl::Status DeviceTransport::Matching::Receive(Part& part, const Arrived& message) {
  const int from = part.transfer.peer;
  const uint64_t bytes = message.header.bytes;
  if (absl::Status fits = CheckSize(part.transfer, bytes); !fits.ok()) return fits;
  part.bytes = bytes;
  part.number = message.header.number;
  const auto batch =
      std::find_if(batches_.begin(), batches_.end(), [&](const Batch& b) { return b.id == part.operation->id; });
  if (batch != batches_.end()) --batch->unmatched;
  switch (message.header.kind) {
    case Kind::kInline:
      if (message.body.size() != bytes) {
        return absl::InternalError(
            absl::StrCat("message from rank ", from, " of ", bytes, " bytes holds ", message.body.size()));
      }
      return ReceiveInline(part, message);
    case Kind::kOffer:
      if (part.in_device) {
        const absl::StatusOr<std::byte*> staging = copies_.TakePinned(bytes);
        if (!staging.ok()) return staging.status();
        part.staging = *staging;
      }
      peers_[from].receiving[part.number] = &part;
      return links_.Send(from, Kind::kAccept, part.number, bytes);
    case Kind::kDevice:
      return ReceiveDevice(part, message, batch == batches_.end() ? nullptr : &*batch);
    default:
      return absl::InternalError(
          absl::StrCat("message from rank ", from, " of unknown kind ", static_cast<uint32_t>(message.header.kind)));
  }
}

absl::Status DeviceTransport::Matching::ReceiveInline(Part& part, const Arrived& message) {
  if (part.bytes > 0 && part.in_device) {
    const absl::StatusOr<std::byte*> staging = copies_.TakePinned(part.bytes);
    if (!staging.ok()) return staging.status();
    part.staging = *staging;
    std::memcpy(part.staging, message.body.data(), part.bytes);
    return FromPinned(part);
  }
  if (part.bytes > 0) std::memcpy(part.transfer.data, message.body.data(), part.bytes);
  Finish(part);
  return absl::OkStatus();
}

absl::Status DeviceTransport::Matching::ReceiveDevice(Part& part, const Arrived& message, Batch* batch) {
  const int from = part.transfer.peer;
  if (engine_.path() == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("rank ", from,
                                                      " sends from device memory by a way that this rank ",
                                                      "does not have: all ranks must be given the same --transport"));
  }
  std::byte* place = part.transfer.data;
  if (!part.in_device) {
    const absl::StatusOr<std::byte*> arrival = copies_.TakeDevice(part.bytes);
    if (!arrival.ok()) return arrival.status();
    place = part.arrival = *arrival;
  }
  part.move = {
      .send = false, .peer = from, .number = part.number, .data = place, .bytes = part.bytes, .note = message.body};
  moving_.push_back(&part);
  if (batch != nullptr) {
    batch->moves.push_back(&part.move);
    return absl::OkStatus();
  }
  DeviceMove* const moves[] = {&part.move};
  return engine_.path()->Start(moves, part.operation->after);
}

// The path has done its work.
absl::Status DeviceTransport::Matching::Moved(Part& part) {
  if (!part.move.send && engine_.path()->receiver_reads()) {
    if (absl::Status told = links_.Send(part.move.peer, Kind::kTaken, part.number, part.bytes); !told.ok()) return told;
  }
  if (part.arrival == nullptr) {
    Finish(part);
    return absl::OkStatus();
  }
  const absl::StatusOr<std::byte*> staging = copies_.TakePinned(part.bytes);
  if (!staging.ok()) return staging.status();
  part.staging = *staging;
  return copies_.Copy(part.staging, part.arrival, part.bytes, [this, &part] {
    std::memcpy(part.transfer.data, part.staging, part.bytes);
    Finish(part);
    return absl::OkStatus();
  });
}

absl::Status DeviceTransport::Matching::FromPinned(Part& part) {
  if (absl::Status waits = copies_.After(part.operation->after); !waits.ok()) return waits;
  return copies_.Copy(part.transfer.data, part.staging, part.bytes, [this, &part] {
    Finish(part);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::byte*> DeviceTransport::Matching::PayloadPlace(int from, const ControlHeader& header) {
  const auto found = peers_[from].receiving.find(header.number);
  if (found == peers_[from].receiving.end() || found->second->bytes != header.bytes) {
    return absl::InternalError(absl::StrCat("rank ", from, " sends ", header.bytes, " bytes of message ", header.number,
                                            ", which was not accepted"));
  }
  Part& part = *found->second;
  return part.staging != nullptr ? part.staging : part.transfer.data;
}

absl::Status DeviceTransport::Matching::OnPayload(int from, uint64_t number) {
  const auto found = peers_[from].receiving.find(number);
  Part& part = *found->second;
  peers_[from].receiving.erase(found);
  if (ending_) return absl::OkStatus();
  if (part.in_device) return FromPinned(part);
  Finish(part);
  return absl::OkStatus();
}

void DeviceTransport::Matching::OnPayloadSent(int to, uint64_t number) {
  const auto found = peers_[to].sending.find(number);
  Part& part = *found->second;
  peers_[to].sending.erase(found);
  if (!ending_) Finish(part);
}

}  // namespace rondo
