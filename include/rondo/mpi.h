// Rondo's messages over a communicator of your own MPI program; used by programs that link rondo::mpi.
#pragma once

#include <mpi.h>

#include <memory>

#include "absl/status/statusor.h"
#include "rondo/transport.h"

namespace rondo {

// Collective over `comm`, which is duplicated: your messages and Rondo's never meet. MPI must have been started with
// MPI_Init_thread at MPI_THREAD_MULTIPLE, or FAILED_PRECONDITION: a thread of Rondo's makes its MPI calls. Destroy the
// transport with FreeMpiTransport before MPI_Finalize.
absl::StatusOr<std::unique_ptr<Transport>> MakeMpiTransport(MPI_Comm comm);

// Collective, with nothing pending: waits for the other ranks at most a minute, then gives the duplicate back.
absl::Status FreeMpiTransport(std::unique_ptr<Transport> transport);

}  // namespace rondo
