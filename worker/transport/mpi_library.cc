#include "rondo/mpi.h"

#include <utility>

#include "absl/time/clock.h"
#include "worker/transport/mpi_transport.h"

namespace rondo {

absl::StatusOr<std::unique_ptr<Transport>> MakeMpiTransport(MPI_Comm comm) {
  MpiOptions options;
  options.communicator = MPI_Comm_c2f(comm);
  absl::StatusOr<std::unique_ptr<MpiTransport>> transport = MpiTransport::Create(options);
  if (!transport.ok()) return transport.status();
  return std::unique_ptr<Transport>(*std::move(transport));
}

absl::Status FreeMpiTransport(std::unique_ptr<Transport> transport) {
  return static_cast<MpiTransport&>(*transport).Close(absl::Now() + absl::Minutes(1));
}

}  // namespace rondo
