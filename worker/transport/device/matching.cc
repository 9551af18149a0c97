#include "worker/transport/device/matching.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace rondo {
namespace {

using Kind = ControlKind;

absl::Span<const std::byte> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), std::min(text.size(), ControlLinks::kMostBody)};
}

}  // namespace

DeviceTransport::Matching::Matching(Engine& engine)
    : engine_(engine),
      links_(engine.control(), engine.options().epoch),
      copies_(engine.cuda()),
      peers_(engine.world()) {}

absl::Status DeviceTransport::Matching::Begin() {
  if (absl::Status begun = copies_.Begin(); !begun.ok()) return begun;
  return links_.Start();
}

absl::Status DeviceTransport::Matching::Add(Operation& operation) {
  Batch batch{.id = operation.id, .unmatched = 0, .after = operation.after, .moves = {}};
  open_parts_ += operation.parts.size();
  // An operation is gone with its last part, so what is needed of it is taken down first.
  std::vector<Part*> sends;
  std::vector<int> sources;
  for (Part& part : operation.parts) {
    if (part.transfer.kind == Transfer::Kind::kSend) {
      sends.push_back(&part);
      continue;
    }
    sources.push_back(part.transfer.peer);
    if (part.transfer.peer != engine_.rank()) ++batch.unmatched;
    peers_[part.transfer.peer].receives.push_back(&part);
  }
  for (Part* part : sends) {
    if (absl::Status added = AddSend(*part, batch); !added.ok()) return added;
  }
  if (in_order() && (batch.unmatched > 0 || !batch.moves.empty())) batches_.push_back(std::move(batch));
  for (const int from : sources) {
    if (absl::Status matched = Match(from); !matched.ok()) return matched;
  }
  return MatchSelf();
}

absl::Status DeviceTransport::Matching::AddSend(Part& part, Batch& batch) {
  const Transfer& t = part.transfer;
  part.bytes = t.size;
  if (t.peer == engine_.rank()) {
    self_sends_.push_back(&part);
    return absl::OkStatus();
  }
  Peer& peer = peers_[t.peer];
  part.number = peer.sent++;
  if (!part.in_device) {
    part.staged = true;
    if (t.size > ControlLinks::kMostBody) {
      peer.sending[part.number] = &part;
      return links_.Send(t.peer, Kind::kOffer, part.number, t.size);
    }
    absl::Status sent = links_.Send(t.peer, Kind::kInline, part.number, t.size, {t.data, t.size});
    if (sent.ok()) Finish(part);
    return sent;
  }
  if (engine_.path() == nullptr) return StageDown(part);
  part.move = {.send = true, .peer = t.peer, .number = part.number, .data = t.data, .bytes = t.size};
  const absl::StatusOr<std::vector<std::byte>> note = engine_.path()->Offer(part.move, part.operation->after);
  if (!note.ok()) return note.status();
  if (engine_.path()->receiver_reads()) {
    peer.sending[part.number] = &part;
  } else {
    moving_.push_back(&part);
  }
  if (in_order()) batch.moves.push_back(&part.move);
  return links_.Send(t.peer, Kind::kDevice, part.number, t.size, *note);
}

// Announced at once, so that messages are announced in the order of posting; the bytes follow when they are down.
absl::Status DeviceTransport::Matching::StageDown(Part& part) {
  const Transfer& t = part.transfer;
  const absl::StatusOr<std::byte*> staging = copies_.TakePinned(t.size);
  if (!staging.ok()) return staging.status();
  part.staging = *staging;
  peers_[t.peer].sending[part.number] = &part;
  if (absl::Status waits = copies_.After(part.operation->after); !waits.ok()) return waits;
  absl::Status copied = copies_.Copy(part.staging, t.data, t.size, [this, &part] {
    part.staged = true;
    return part.accepted ? SendPayload(part) : absl::OkStatus();
  });
  if (!copied.ok()) return copied;
  return links_.Send(t.peer, Kind::kOffer, part.number, t.size);
}

absl::Status DeviceTransport::Matching::SendPayload(Part& part) {
  const Transfer& t = part.transfer;
  return links_.SendPayload(t.peer, part.number, {part.staging != nullptr ? part.staging : t.data, t.size});
}

absl::Status DeviceTransport::Matching::Match(int from) {
  Peer& peer = peers_[from];
  while (!peer.receives.empty() && !peer.arrived.empty()) {
    Part& part = *peer.receives.front();
    peer.receives.pop_front();
    const Arrived message = std::move(peer.arrived.front());
    peer.arrived.pop_front();
    if (absl::Status received = Receive(part, message); !received.ok()) return received;
  }
  return absl::OkStatus();
}

absl::Status DeviceTransport::Matching::MatchSelf() {
  std::deque<Part*>& receives = peers_[engine_.rank()].receives;
  while (!receives.empty() && !self_sends_.empty()) {
    Part& to = *receives.front();
    Part& from = *self_sends_.front();
    receives.pop_front();
    self_sends_.pop_front();
    if (absl::Status fits = CheckSize(to.transfer, from.bytes); !fits.ok()) return fits;
    to.bytes = from.bytes;
    if (absl::Status moved = CopyToSelf(from, to); !moved.ok()) return moved;
  }
  return absl::OkStatus();
}

absl::Status DeviceTransport::Matching::CopyToSelf(Part& from, Part& to) {
  const auto both_done = [this, &from, &to] {
    Finish(from);
    Finish(to);
    return absl::OkStatus();
  };
  const size_t bytes = from.bytes;
  if (bytes == 0) return both_done();
  if (!from.in_device && !to.in_device) {
    std::memcpy(to.transfer.data, from.transfer.data, bytes);
    return both_done();
  }
  for (CudaEvent* after : {from.operation->after, to.operation->after}) {
    if (absl::Status waits = copies_.After(after); !waits.ok()) return waits;
  }
  if (from.in_device && to.in_device) return copies_.Copy(to.transfer.data, from.transfer.data, bytes, both_done);
  const absl::StatusOr<std::byte*> staging = copies_.TakePinned(bytes);
  if (!staging.ok()) return staging.status();
  if (to.in_device) {
    std::memcpy(*staging, from.transfer.data, bytes);
    Finish(from);
    to.staging = *staging;
    return FromPinned(to);
  }
  return copies_.Copy(*staging, from.transfer.data, bytes, [this, &to, both_done, bytes, pinned = *staging] {
    std::memcpy(to.transfer.data, pinned, bytes);
    copies_.GivePinned(pinned);
    return both_done();
  });
}

absl::Status DeviceTransport::Matching::StartBatches() {
  while (!batches_.empty() && batches_.front().unmatched == 0) {
    const Batch batch = std::move(batches_.front());
    batches_.pop_front();
    if (batch.moves.empty()) continue;
    if (absl::Status started = engine_.path()->Start(batch.moves, batch.after); !started.ok()) return started;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> DeviceTransport::Matching::Poll() {
  const absl::StatusOr<bool> talked = links_.Poll(*this);
  if (!talked.ok()) return talked;
  if (absl::Status started = StartBatches(); !started.ok()) return started;
  const absl::StatusOr<bool> copied = copies_.Poll();
  if (!copied.ok() || engine_.path() == nullptr) return copied.ok() ? *talked || *copied : copied;
  const absl::StatusOr<bool> moved = engine_.path()->Poll();
  if (!moved.ok()) return moved;
  if (*moved) {
    for (auto it = moving_.begin(); it != moving_.end();) {
      Part& part = **it;
      if (part.move.state == DeviceMove::State::kDone) {
        it = moving_.erase(it);
        if (absl::Status ended = Moved(part); !ended.ok()) return ended;
        continue;
      }
      if (part.move.state == DeviceMove::State::kQueued && !part.queued && part.arrival == nullptr) {
        engine_.Queued(part);
      }
      ++it;
    }
  }
  return *talked || *copied || *moved;
}

void DeviceTransport::Matching::Finish(Part& part) {
  if (part.staging != nullptr) copies_.GivePinned(std::exchange(part.staging, nullptr));
  if (part.arrival != nullptr) copies_.GiveDevice(std::exchange(part.arrival, nullptr));
  --open_parts_;
  engine_.Done(part);
}

absl::Status DeviceTransport::Matching::SayBye() {
  for (int peer = 0; peer < engine_.world(); ++peer) {
    if (peer == engine_.rank()) continue;
    if (absl::Status said = links_.Send(peer, Kind::kBye, 0, 0); !said.ok()) return said;
  }
  return absl::OkStatus();
}

void DeviceTransport::Matching::TellFailure(const std::string& reason) {
  for (int peer = 0; peer < engine_.world(); ++peer) {
    if (peer == engine_.rank()) continue;
    // Where it cannot be told, its own deadline or the end of this process tells it.
    if (!links_.Send(peer, Kind::kAbort, 0, 0, Bytes(reason)).ok()) peers_[peer].failed = true;
  }
}

bool DeviceTransport::Matching::everybody_failed() {
  ending_ = true;
  if (!links_.Poll(*this).ok()) return true;
  for (int peer = 0; peer < engine_.world(); ++peer) {
    if (peer != engine_.rank() && !peers_[peer].failed) return false;
  }
  return links_.sent();
}

void DeviceTransport::Matching::Abort() {
  links_.Drain();
  copies_.Abort();
}

}  // namespace rondo
