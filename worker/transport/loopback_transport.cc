#include "worker/transport/loopback_transport.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "worker/transport/pair_transport.h"

namespace rondo {

// One mutex for all ranks: messages here are few and large, and the copies are made outside it.
struct LoopbackHub::Shared {
  struct Mailbox {
    uint64_t sent = 0;      // messages ever put in
    uint64_t expected = 0;  // receives ever posted
    std::map<uint64_t, std::vector<std::byte>> messages;
  };
  struct Rank {
    bool connected = false;
    bool left = false;
    absl::Status failure;
    std::condition_variable wake;
  };

  explicit Shared(int world) : ranks(world), mailboxes(static_cast<size_t>(world) * world) {}
  Mailbox& Box(int from, int to) { return mailboxes[static_cast<size_t>(from) * ranks.size() + to]; }
  void WakeAll() {
    for (Rank& rank : ranks) rank.wake.notify_all();
  }

  std::mutex mutex;
  std::vector<Rank> ranks;
  std::vector<Mailbox> mailboxes;
};

namespace {

class LoopbackTransport : public PairTransport {
 public:
  LoopbackTransport(std::shared_ptr<LoopbackHub::Shared> shared, int rank) : shared_(std::move(shared)), rank_(rank) {}

  ~LoopbackTransport() override {
    std::lock_guard lock(shared_->mutex);
    shared_->ranks[rank_].left = true;
    shared_->WakeAll();
  }

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(shared_->ranks.size()); }
  uint64_t sent_bytes() const override { return sent_bytes_; }

  bool Ready(Pending pending) override;
  absl::StatusOr<size_t> Wait(Pending pending, absl::Time deadline) override;
  void Abort(absl::Status reason) override;

 protected:
  absl::StatusOr<Pending> Post(absl::Span<const Transfer> transfers) override;

 private:
  struct Receive {
    Transfer transfer;
    uint64_t number = 0;  // of the message, among those from this peer
  };

  absl::Status Fail(absl::Status status) {  // mutex held
    shared_->ranks[rank_].failure = status;
    shared_->WakeAll();
    return status;
  }
  absl::StatusOr<std::vector<std::byte>> Take(const Receive& receive, absl::Time deadline);

  const std::shared_ptr<LoopbackHub::Shared> shared_;
  const int rank_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::vector<Receive>> pending_;
  std::atomic<uint64_t> sent_bytes_{0};
};

absl::StatusOr<Transport::Pending> LoopbackTransport::Post(absl::Span<const Transfer> transfers) {
  std::vector<std::vector<std::byte>> copies;
  for (const Transfer& t : transfers) {
    RONDO_CHECK(t.peer >= 0 && t.peer < world_size());
    if (t.kind == Transfer::Kind::kSend) copies.emplace_back(t.data, t.data + t.size);
  }
  std::vector<Receive> receives;
  std::lock_guard lock(shared_->mutex);
  if (!shared_->ranks[rank_].failure.ok()) return shared_->ranks[rank_].failure;
  size_t copy = 0;
  for (const Transfer& t : transfers) {
    if (t.kind == Transfer::Kind::kRecv) {
      receives.push_back({t, shared_->Box(t.peer, rank_).expected++});
      continue;
    }
    LoopbackHub::Shared::Mailbox& box = shared_->Box(rank_, t.peer);
    box.messages.emplace(box.sent++, std::move(copies[copy++]));
    if (t.peer != rank_) sent_bytes_ += t.size;
    shared_->ranks[t.peer].wake.notify_all();
  }
  const Pending pending{next_id_++};
  pending_.emplace(pending.id, std::move(receives));
  return pending;
}

absl::StatusOr<std::vector<std::byte>> LoopbackTransport::Take(const Receive& receive, absl::Time deadline) {
  const Transfer& t = receive.transfer;
  std::unique_lock lock(shared_->mutex);
  LoopbackHub::Shared::Rank& self = shared_->ranks[rank_];
  LoopbackHub::Shared::Mailbox& box = shared_->Box(t.peer, rank_);
  while (true) {
    if (!self.failure.ok()) return self.failure;
    if (auto found = box.messages.find(receive.number); found != box.messages.end()) {
      std::vector<std::byte> message = std::move(found->second);
      box.messages.erase(found);
      if (absl::Status fits = CheckSize(t, message.size()); !fits.ok()) return Fail(fits);
      return message;
    }
    const LoopbackHub::Shared::Rank& peer = shared_->ranks[t.peer];
    if (!peer.failure.ok()) {
      return Fail(
          absl::UnavailableError(absl::StrCat(Describe(t), ": rank ", t.peer, " failed: ", peer.failure.message())));
    }
    if (peer.left) return Fail(absl::UnavailableError(absl::StrCat(Describe(t), ": rank ", t.peer, " has left")));
    if (deadline == absl::InfiniteFuture()) {
      self.wake.wait(lock);
    } else if (self.wake.wait_until(lock, absl::ToChronoTime(deadline)) == std::cv_status::timeout &&
               absl::Now() >= deadline && !box.messages.contains(receive.number) && self.failure.ok()) {
      return Fail(absl::DeadlineExceededError(absl::StrCat(Describe(t), ": nothing arrived before the deadline")));
    }
  }
}

bool LoopbackTransport::Ready(Pending pending) {
  const auto found = pending_.find(pending.id);
  RONDO_CHECK(found != pending_.end());
  std::lock_guard lock(shared_->mutex);
  if (!shared_->ranks[rank_].failure.ok()) return true;
  return std::all_of(found->second.begin(), found->second.end(), [&](const Receive& receive) {
    const LoopbackHub::Shared::Rank& peer = shared_->ranks[receive.transfer.peer];
    return peer.left || !peer.failure.ok() ||
           shared_->Box(receive.transfer.peer, rank_).messages.contains(receive.number);
  });
}

absl::StatusOr<size_t> LoopbackTransport::Wait(Pending pending, absl::Time deadline) {
  const auto found = pending_.find(pending.id);
  RONDO_CHECK(found != pending_.end());
  const std::vector<Receive> receives = std::move(found->second);
  pending_.erase(found);
  size_t bytes = 0;
  for (const Receive& receive : receives) {
    absl::StatusOr<std::vector<std::byte>> message = Take(receive, deadline);
    if (!message.ok()) return message.status();
    if (!message->empty()) std::memcpy(receive.transfer.data, message->data(), message->size());
    bytes += message->size();
  }
  if (receives.empty()) {
    std::lock_guard lock(shared_->mutex);
    if (!shared_->ranks[rank_].failure.ok()) return shared_->ranks[rank_].failure;
  }
  return bytes;
}

void LoopbackTransport::Abort(absl::Status reason) {
  const absl::Status status =
      absl::UnavailableError(absl::StrCat("rank ", rank_, " aborted the group: ", reason.message()));
  std::lock_guard lock(shared_->mutex);
  for (LoopbackHub::Shared::Rank& rank : shared_->ranks) {
    if (rank.failure.ok()) rank.failure = status;
  }
  shared_->WakeAll();
}

}  // namespace

LoopbackHub::LoopbackHub(int world) : shared_(std::make_shared<Shared>(world)) { RONDO_CHECK(world >= 1); }
LoopbackHub::~LoopbackHub() = default;

std::unique_ptr<Transport> LoopbackHub::Connect(int rank) {
  std::lock_guard lock(shared_->mutex);
  RONDO_CHECK(rank >= 0 && rank < static_cast<int>(shared_->ranks.size()) && !shared_->ranks[rank].connected);
  shared_->ranks[rank].connected = true;
  return std::make_unique<LoopbackTransport>(shared_, rank);
}

}  // namespace rondo
