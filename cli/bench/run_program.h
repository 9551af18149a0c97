// Runs a program to its end and keeps what it printed; used by `rondo bench`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace rondo::cli {

struct ProgramOutput {
  int exit_code = 0;  // 128 + signal when a signal ended it
  std::string out;
  std::string err;  // its last 64 KiB
};

// argv[0] is found on PATH when it has no slash; stdin is /dev/null. The program dies when this thread does, and a
// Ctrl-C reaches both. UNAVAILABLE when it cannot be started.
absl::StatusOr<ProgramOutput> RunProgram(const std::vector<std::string>& argv);

// The same with stdout and stderr as ours. The exit code.
absl::StatusOr<int> RunProgramHere(const std::vector<std::string>& argv);

// The line that says most of why a program failed: the last that is no launcher's chatter.
std::string LastWords(const std::string& err);

}  // namespace rondo::cli
