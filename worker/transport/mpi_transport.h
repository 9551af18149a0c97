// The transport between ranks started by mpirun; used by worker/main, which passes it on as a Transport.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/transport/pair_transport.h"

namespace rondo {

struct MpiOptions {
  // A message is cut into pieces of at most this many bytes: an MPI count is an int.
  size_t chunk_bytes = size_t{1} << 30;
  // MPI_Init waits for all ranks of the mpirun.
  absl::Duration init_timeout = absl::Seconds(120);
  // Longest sleep between two looks at a transfer that does not move. 100 us: 1 % of a core, and short beside the
  // milliseconds of a ring step.
  absl::Duration poll_sleep = absl::Microseconds(100);
  // Of a program that runs MPI itself, at MPI_THREAD_MULTIPLE: the Fortran handle (MPI_Comm_c2f) of the communicator
  // whose ranks all call Create. The transport works on a duplicate and never ends MPI. None: it starts and ends MPI,
  // and its ranks are those of MPI_COMM_WORLD.
  std::optional<int> communicator = std::nullopt;
};

// One thread of the process, started by Create, makes every MPI call from MPI_Init_thread to MPI_Finalize. Callers hand
// it requests through a queue and wait on a condition variable. It polls hard while data moves, yields and then
// sleeps between looks while it does not, and sleeps without end when nothing is posted: an idle rank uses no CPU.
//
// Start the program as RecommendedMpirunArgs() in mpi_launch.h says:
//   mpirun --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -np 4 program
//
// On the wire, the k-th message of a rank to a peer has tag 2 * (k mod 16384): 8 bytes of length, little-endian, then
// the bytes if they are at most kInlineBytes; else they follow in pieces with the next tag. Example: "abc" is
//   03 00 00 00 00 00 00 00 61 62 63
//
// Abort ends this rank's waits at once and stops all MPI calls; peers notice when this process ends, which it should
// soon, by HardExit: destroying a failed transport is safe but leaves MPI unfinalized.
class MpiTransport : public PairTransport {
 public:
  // Blocks until all ranks are there. FAILED_PRECONDITION when MPI does not give the thread level asked for;
  // DEADLINE_EXCEEDED after init_timeout, and then the process can only HardExit. Once in a process, unless it runs MPI
  // itself.
  static absl::StatusOr<std::unique_ptr<MpiTransport>> Create(const MpiOptions& options = {});
  ~MpiTransport() override;

  // Ends MPI in order (or gives the duplicate back); all ranks call it, with nothing pending. DEADLINE_EXCEEDED when a
  // rank does not come: then HardExit. The first error when the transport had failed.
  absl::Status Close(absl::Time deadline);

  int rank() const override;
  int world_size() const override;
  uint64_t sent_bytes() const override;
  bool Ready(Pending pending) override;
  absl::StatusOr<size_t> Wait(Pending pending, absl::Time deadline) override;
  void Abort(absl::Status reason) override;

 protected:
  absl::StatusOr<Pending> Post(absl::Span<const Transfer> transfers) override;

 private:
  class Progress;  // the thread and what it shares with callers
  explicit MpiTransport(std::shared_ptr<Progress> progress);

  const std::shared_ptr<Progress> progress_;
};

}  // namespace rondo
