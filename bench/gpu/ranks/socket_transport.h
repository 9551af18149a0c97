// A transport between processes of one machine over socket pairs that were made before they were forked: what ranks
// that share a card agree over, where MPI is not wanted; used by gpu_check_ranks and by tests.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "worker/transport/pair_transport.h"

namespace rondo {

// Messages are copied when posted, so a send never waits. A rank that goes, in whatever way, ends its peers' receives
// with UNAVAILABLE; what it sent before still arrives. Abort reaches nobody else.
//
// On the wire a message is its length (u64, this machine's byte order) and its bytes.
class SocketTransport : public PairTransport {
 public:
  // sockets[r] leads to rank r and is owned from here on; sockets[rank] is -1.
  SocketTransport(int rank, std::vector<int> sockets);
  ~SocketTransport() override;  // sends what is still to be sent, for ten seconds at most

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(peers_.size()); }
  bool Ready(Pending pending) override;
  absl::StatusOr<size_t> Wait(Pending pending, absl::Time deadline) override;
  void Abort(absl::Status reason) override;
  uint64_t sent_bytes() const override;

 protected:
  absl::StatusOr<Pending> Post(absl::Span<const Transfer> transfers) override;

 private:
  struct Peer {
    int socket = -1;
    bool ended = false;  // its end is closed, or ours
    std::deque<std::vector<std::byte>> outgoing;
    size_t outgoing_at = 0;                               // of the first, what has been written
    std::vector<std::byte> incoming;                      // length and bytes, as far as they are here
    uint64_t arrived = 0;                                 // messages so far
    uint64_t expected = 0;                                // receives posted so far
    std::map<uint64_t, std::vector<std::byte>> messages;  // by number
  };
  struct Receive {
    Transfer transfer;
    uint64_t number = 0;
  };

  void ThreadMain();
  // With the mutex held; they take what the socket gives at once.
  void Write(Peer& peer);
  void Read(Peer& peer);
  bool Through(const Receive& receive) const;
  void Wake();
  absl::Status Fail(absl::Status status);

  const int rank_;
  mutable std::mutex mutex_;
  std::condition_variable arrival_;
  std::vector<Peer> peers_;
  std::map<uint64_t, std::vector<Receive>> pending_;
  uint64_t next_id_ = 1;
  uint64_t sent_bytes_ = 0;
  absl::Status failure_;
  bool ending_ = false;
  int wake_ = -1;  // an eventfd
  std::thread thread_;
};

}  // namespace rondo
