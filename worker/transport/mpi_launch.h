// How a process started by mpirun learns its place, and how mpirun is best called: for worker/main and the launcher of
// the command line tool. No MPI header here, so that programs that are not ranks need no MPI.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace rondo {

struct MpiLaunch {
  int rank = 0;
  int world = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_size = 1;

  // From what Open MPI's mpirun puts in the environment; empty when this process was not started by it.
  static std::optional<MpiLaunch> FromEnvironment();
};

// Options for `mpirun` that work as root, with more ranks than cores, and leave each rank all cores of its share:
//   --allow-run-as-root        containers run as root; without it mpirun refuses
//   --oversubscribe            -np 3 on 2 cores is refused without it
//   --bind-to none             -np 2 pins every rank, and so all its threads, to one core without it
//   --mca mpi_yield_when_idle 1  a rank that polls gives its core away
// Larger vader fragments were tried for blocks of 0.4 to 4 MB, with and without single copy (CMA), and gained nothing.
// With CMA refused, as in some containers, a step of 1 MB among 4 ranks on 2 cores takes 1.2 ms in the place of 0.5.
// Append `-np N program args`.
std::vector<std::string> RecommendedMpirunArgs();

// Ends the process at once, without destructors and without MPI_Finalize, which could wait for a dead peer. mpirun
// then ends the other ranks. For after a transport failed: buffers that a peer may still read stay mapped to the end.
[[noreturn]] void HardExit(int code);

}  // namespace rondo
