// The transport seam: messages between the ranks of one group; used by worker/ring, implemented in worker/transport.
//
// Threading: one caller thread a rank makes all calls but Abort, which any thread may make. Every wait has a deadline.
// After a failure the transport is dead: all further calls return the first error. No message is limited to 2 GiB.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace rondo {

class Transport {
 public:
  // A posted exchange; wait for it exactly once. Buffers must outlive the wait.
  struct Pending {
    uint64_t id = 0;
  };

  static constexpr int kNobody = -1;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Posts a send of `send` to rank `to` and a receive from rank `from` into `recv`. Messages between two ranks arrive
  // in order. Either may be empty, the peer's message may be shorter than `recv`, `to` and `from` may be this rank.
  // With kNobody as `to` or `from` that half is left out. Never blocks for the peer.
  virtual absl::StatusOr<Pending> SendRecv(int to, absl::Span<const std::byte> send, int from,
                                           absl::Span<std::byte> recv) = 0;

  // True when Wait would return at once, with bytes or with an error. For a thread that serves several waits.
  virtual bool Ready(Pending pending) = 0;

  // Bytes received. DEADLINE_EXCEEDED, or UNAVAILABLE with the reason given to Abort or the peer's failure; a message
  // longer than the buffer is INTERNAL with both sizes: "recv from rank 3: expected at most 1048576 bytes, got
  // 2097152".
  virtual absl::StatusOr<size_t> Wait(Pending pending, absl::Time deadline) = 0;

  // Ranks [0, parts.size()) exchange: this rank's part is read from parts[rank()], the others are filled. Sizes are
  // known to all beforehand. Only those ranks call.
  virtual absl::Status AllGather(absl::Span<const absl::Span<std::byte>> parts, absl::Time deadline) = 0;

  // Ranks [0, ranks): every one ends with root's bytes in `buffer`.
  virtual absl::Status Broadcast(int root, int ranks, absl::Span<std::byte> buffer, absl::Time deadline) = 0;

  // Ends every pending and future operation of this rank with UNAVAILABLE and `reason`, and of the other ranks where
  // the transport can reach them. Idempotent, any thread, never blocks.
  virtual void Abort(absl::Status reason) = 0;

  // Payload bytes this rank has sent to others, for the job's summary.
  virtual uint64_t sent_bytes() const = 0;
};

}  // namespace rondo
