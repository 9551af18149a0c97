// Messages as MPI requests: length first, pieces of a bounded size; the progress thread's own, and with its .cc and
// mpi_progress.cc the only place that includes MPI.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "worker/transport/mpi_progress.h"

namespace rondo {

class MpiTransport::Progress::Wire {
 public:
  // Longer messages go from and to the callers' buffers without a copy; shorter ones travel behind their length.
  static constexpr size_t kInlineBytes = 16 << 10;

  Wire(int world, size_t chunk_bytes, MPI_Comm comm) : chunk_bytes_(chunk_bytes), comm_(comm), peers_(world) {}

  absl::Status Start(const Transfer& transfer, Operation* operation);

  // Gives MPI a chance to move data and reports messages that ended. True when a request completed.
  absl::StatusOr<bool> Poll(const std::function<void(Operation*, size_t received)>& finished);

  bool idle() const { return requests_.empty(); }
  // Bytes of long messages whose pieces are with MPI: while they move, looking often is worth the CPU.
  size_t moving_bytes() const { return moving_bytes_; }

 private:
  struct Peer {
    uint64_t sent = 0;
    uint64_t received = 0;
  };
  struct Message {
    Transfer transfer;
    Operation* operation = nullptr;
    int tag = 0;
    bool has_length = false;
    size_t length = 0;
    size_t requests = 0;
    std::unique_ptr<std::byte[]> envelope;
  };

  absl::Status PostEnvelope(std::shared_ptr<Message> message);
  absl::Status PostPieces(const std::shared_ptr<Message>& message);
  absl::Status Completed(const std::shared_ptr<Message>& message);
  void Add(MPI_Request request, const std::shared_ptr<Message>& message);

  const size_t chunk_bytes_;
  const MPI_Comm comm_;
  std::vector<Peer> peers_;
  std::vector<MPI_Request> requests_;
  std::vector<std::shared_ptr<Message>> owners_;  // of requests_
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  size_t moving_bytes_ = 0;
};

// OK, or UNAVAILABLE with MPI's text.
absl::Status MpiStatus(int code, const char* what);

}  // namespace rondo
