#include "bench/gpu/ranks/socket_transport.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"

namespace rondo {
namespace {

constexpr absl::Duration kFarewell = absl::Seconds(10);

}  // namespace

SocketTransport::SocketTransport(int rank, std::vector<int> sockets) : rank_(rank), peers_(sockets.size()) {
  for (size_t peer = 0; peer < sockets.size(); ++peer) {
    peers_[peer].socket = sockets[peer];
    if (sockets[peer] >= 0) fcntl(sockets[peer], F_SETFL, fcntl(sockets[peer], F_GETFL) | O_NONBLOCK);
  }
  wake_ = eventfd(0, EFD_NONBLOCK);
  RONDO_CHECK(wake_ >= 0);
  thread_ = std::thread([this] { ThreadMain(); });
}

SocketTransport::~SocketTransport() {
  {
    std::unique_lock lock(mutex_);
    const auto sent = [&] {
      return !failure_.ok() ||
             std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.ended || p.outgoing.empty(); });
    };
    arrival_.wait_until(lock, absl::ToChronoTime(absl::Now() + kFarewell), sent);
    ending_ = true;
    Wake();
  }
  thread_.join();
  for (const Peer& peer : peers_) {
    if (peer.socket >= 0) close(peer.socket);
  }
  close(wake_);
}

uint64_t SocketTransport::sent_bytes() const {
  std::lock_guard lock(mutex_);
  return sent_bytes_;
}

void SocketTransport::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));  // full: it is awake
}

void SocketTransport::ThreadMain() {
  pthread_setname_np(pthread_self(), "rondo-sockets");
  while (true) {
    std::vector<pollfd> watched = {{wake_, POLLIN, 0}};
    {
      std::lock_guard lock(mutex_);
      if (ending_) return;
      for (const Peer& peer : peers_) {
        const short events = static_cast<short>(POLLIN | (peer.outgoing.empty() ? 0 : POLLOUT));
        watched.push_back({peer.ended ? -1 : peer.socket, events, 0});
      }
    }
    poll(watched.data(), watched.size(), -1);
    std::lock_guard lock(mutex_);
    uint64_t times = 0;
    (void)!read(wake_, &times, sizeof(times));
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      if (watched[peer + 1].revents & (POLLOUT | POLLERR)) Write(peers_[peer]);
      if (watched[peer + 1].revents & (POLLIN | POLLHUP | POLLERR)) Read(peers_[peer]);
    }
    arrival_.notify_all();
  }
}

void SocketTransport::Write(Peer& peer) {
  while (!peer.ended && !peer.outgoing.empty()) {
    const std::vector<std::byte>& message = peer.outgoing.front();
    const ssize_t written =
        send(peer.socket, message.data() + peer.outgoing_at, message.size() - peer.outgoing_at, MSG_NOSIGNAL);
    if (written < 0) {
      peer.ended = errno != EAGAIN && errno != EINTR;
      return;
    }
    peer.outgoing_at += static_cast<size_t>(written);
    if (peer.outgoing_at < message.size()) continue;
    peer.outgoing.pop_front();
    peer.outgoing_at = 0;
  }
}

void SocketTransport::Read(Peer& peer) {
  while (!peer.ended) {
    uint64_t length = 0;
    const bool has_length = peer.incoming.size() >= sizeof(length);
    if (has_length) std::memcpy(&length, peer.incoming.data(), sizeof(length));
    const size_t wanted = sizeof(length) + length;
    const size_t have = peer.incoming.size();
    if (has_length && have == wanted) {
      peer.messages.emplace(peer.arrived++,
                            std::vector<std::byte>(peer.incoming.begin() + sizeof(length), peer.incoming.end()));
      peer.incoming.clear();
      continue;
    }
    peer.incoming.resize(std::min(wanted, have + (size_t{1} << 20)));
    const ssize_t got = recv(peer.socket, peer.incoming.data() + have, peer.incoming.size() - have, 0);
    peer.incoming.resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0) continue;
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) peer.ended = true;
    return;
  }
}

absl::StatusOr<Transport::Pending> SocketTransport::Post(absl::Span<const Transfer> transfers) {
  std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  std::vector<Receive> receives;
  for (const Transfer& transfer : transfers) {
    Peer& peer = peers_.at(static_cast<size_t>(transfer.peer));
    if (transfer.kind == Transfer::Kind::kRecv) {
      receives.push_back({transfer, peer.expected++});
    } else if (transfer.peer == rank_) {
      peer.messages.emplace(peer.arrived++, std::vector<std::byte>(transfer.data, transfer.data + transfer.size));
    } else {
      const uint64_t length = transfer.size;
      std::vector<std::byte>& message = peer.outgoing.emplace_back(sizeof(length) + transfer.size);
      std::memcpy(message.data(), &length, sizeof(length));
      if (length > 0) std::memcpy(message.data() + sizeof(length), transfer.data, transfer.size);
      sent_bytes_ += length;
      if (peer.outgoing.size() == 1) Write(peer);
    }
  }
  Wake();
  const Pending pending{next_id_++};
  pending_.emplace(pending.id, std::move(receives));
  return pending;
}

bool SocketTransport::Through(const Receive& receive) const {
  const Peer& peer = peers_[static_cast<size_t>(receive.transfer.peer)];
  return peer.messages.contains(receive.number) || peer.ended;
}

bool SocketTransport::Ready(Pending pending) {
  std::lock_guard lock(mutex_);
  const std::vector<Receive>& receives = pending_.at(pending.id);
  return !failure_.ok() ||
         std::all_of(receives.begin(), receives.end(), [&](const Receive& receive) { return Through(receive); });
}

absl::Status SocketTransport::Fail(absl::Status status) {
  if (failure_.ok()) failure_ = std::move(status);
  arrival_.notify_all();
  return failure_;
}

absl::StatusOr<size_t> SocketTransport::Wait(Pending pending, absl::Time deadline) {
  std::unique_lock lock(mutex_);
  const std::vector<Receive> receives = std::move(pending_.at(pending.id));
  pending_.erase(pending.id);
  size_t bytes = 0;
  for (const Receive& receive : receives) {
    const Transfer& transfer = receive.transfer;
    const auto through = [&] { return !failure_.ok() || Through(receive); };
    if (!arrival_.wait_until(lock, absl::ToChronoTime(deadline), through)) {
      return Fail(
          absl::DeadlineExceededError(absl::StrCat(Describe(transfer), ": nothing arrived before the deadline")));
    }
    if (!failure_.ok()) return failure_;
    auto& messages = peers_[static_cast<size_t>(transfer.peer)].messages;
    const auto found = messages.find(receive.number);
    if (found == messages.end()) {
      return Fail(absl::UnavailableError(absl::StrCat(Describe(transfer), ": rank ", transfer.peer, " has ended")));
    }
    if (absl::Status fits = CheckSize(transfer, found->second.size()); !fits.ok()) return Fail(fits);
    if (!found->second.empty()) std::memcpy(transfer.data, found->second.data(), found->second.size());
    bytes += found->second.size();
    messages.erase(found);
  }
  return failure_.ok() ? absl::StatusOr<size_t>(bytes) : failure_;
}

void SocketTransport::Abort(absl::Status reason) {
  std::lock_guard lock(mutex_);
  (void)Fail(absl::UnavailableError(absl::StrCat("rank ", rank_, " gave up: ", reason.message())));
}

}  // namespace rondo
