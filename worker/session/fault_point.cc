#include "worker/session/fault_point.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace rondo {
namespace {

struct Fault {
  int rank = 0;
  std::string kind;
  int64_t visit = 0;
  std::string marker;
};

std::optional<Fault> ParseFault() {
  const char* env = std::getenv("RONDO_FAULT");
  if (env == nullptr) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(env, absl::MaxSplits(':', 3));
  Fault fault;
  if (parts.size() != 4 || !absl::SimpleAtoi(parts[0], &fault.rank) || !absl::SimpleAtoi(parts[2], &fault.visit)) {
    return std::nullopt;
  }
  fault.kind = parts[1];
  fault.marker = parts[3];
  return fault;
}

}  // namespace

void FaultPoint(int rank) {
  static const std::optional<Fault> fault = ParseFault();
  static std::atomic<int64_t> visits{0};
  if (!fault || rank != fault->rank || ++visits != fault->visit) return;
  const int fd = open(fault->marker.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return;
  close(fd);
  if (fault->kind == "kill") raise(SIGKILL);
  if (fault->kind == "stop") raise(SIGSTOP);
  if (fault->kind == "exit") _exit(0);
  while (fault->kind == "hang") pause();
  if (fault->kind == "throw") throw std::runtime_error("planted fault");
}

}  // namespace rondo
