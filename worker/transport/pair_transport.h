// What every transport shares: SendRecv, AllGather and Broadcast expressed as sets of one-way messages; the loopback
// and MPI transports implement only Post and Wait.
#pragma once

#include <cstddef>
#include <string>

#include "rondo/transport.h"

namespace rondo {

class PairTransport : public Transport {
 public:
  absl::StatusOr<Pending> SendRecv(int to, absl::Span<const std::byte> send, int from,
                                   absl::Span<std::byte> recv) override;
  // Every rank sends its part straight to each other rank: one message deep, which is what a decode step waits for.
  absl::Status AllGather(absl::Span<const absl::Span<std::byte>> parts, absl::Time deadline) override;
  // A binomial tree: log2(ranks) messages deep, no rank sends more than that many.
  absl::Status Broadcast(int root, int ranks, absl::Span<std::byte> buffer, absl::Time deadline) override;

 protected:
  // One message to or from `peer`. The k-th message a rank sends to a peer is the k-th the peer receives from it.
  struct Transfer {
    enum class Kind { kSend, kRecv };
    Kind kind = Kind::kSend;
    int peer = 0;
    std::byte* data = nullptr;  // only read for kSend
    size_t size = 0;            // for kRecv: the most that is accepted
    bool exact = false;         // kRecv: a shorter message is an error as well
  };

  // Starts all transfers and returns at once. Wait returns the bytes of all receives together.
  virtual absl::StatusOr<Pending> Post(absl::Span<const Transfer> transfers) = 0;

  static Transfer Send(int to, absl::Span<const std::byte> data);
  static Transfer Recv(int from, absl::Span<std::byte> data, bool exact);
  // OK when a message of `got` bytes may go into `transfer`.
  static absl::Status CheckSize(const Transfer& transfer, size_t got);
  // "recv from rank 3 (1048576 bytes)", for errors.
  static std::string Describe(const Transfer& transfer);
};

}  // namespace rondo
