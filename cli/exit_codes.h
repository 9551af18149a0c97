// What `rondo` exits with, for every command; scripts rely on these numbers.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace rondo::cli {

// The numbers are sysexits' (69, 75), timeout(1)'s (124) and the shell's for SIGINT (128 + 2).
enum ExitCode : int {
  kOk = 0,
  kFailure = 1,
  kUsage = 2,
  kNoCoordinator = 69,
  kQueueFull = 75,
  kDeadline = 124,
  kInterrupted = 130,
};

// Prints two lines on stderr, what failed and what to do next (left out when empty), and returns `code`.
ExitCode Fail(ExitCode code, std::string_view what, std::string_view next);

// Same for an error of our own files and arguments: INVALID_ARGUMENT is usage, everything else failure.
ExitCode FailStatus(const absl::Status& status, std::string_view next);

// The exit code of a call that ended with `status`. `connected`: whether the channel still reaches the coordinator,
// which tells a ring that did not come back (failure) from a coordinator that is gone (69).
ExitCode CodeOfRpc(const grpc::Status& status, bool connected);

// Whether the call ended because the coordinator could not be reached any more, and not by its own word: it may come
// back, and its journal has the job.
bool ConnectionBroke(const grpc::Status& status);

// Prints the two lines for a failed call and returns its code.
ExitCode FailRpc(const grpc::Status& status, bool connected, std::string_view address);

}  // namespace rondo::cli
