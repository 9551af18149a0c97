#include "worker/transport/mpi_launch.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"

namespace rondo {
namespace {

bool ReadInt(const char* name, int& value) {
  const char* text = std::getenv(name);
  return text != nullptr && absl::SimpleAtoi(text, &value);
}

}  // namespace

std::optional<MpiLaunch> MpiLaunch::FromEnvironment() {
  MpiLaunch launch;
  if (!ReadInt("OMPI_COMM_WORLD_RANK", launch.rank) || !ReadInt("OMPI_COMM_WORLD_SIZE", launch.world)) {
    return std::nullopt;
  }
  if (!ReadInt("OMPI_COMM_WORLD_LOCAL_RANK", launch.local_rank)) launch.local_rank = 0;
  if (!ReadInt("OMPI_COMM_WORLD_LOCAL_SIZE", launch.local_size)) launch.local_size = 1;
  return launch;
}

std::vector<std::string> RecommendedMpirunArgs() {
  return {"--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"};
}

void HardExit(int code) {
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(code);
}

}  // namespace rondo
