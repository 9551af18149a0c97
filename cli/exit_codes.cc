#include "cli/exit_codes.h"

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace rondo::cli {

ExitCode Fail(ExitCode code, std::string_view what, std::string_view next) {
  std::string text = absl::StrCat("rondo: ", Sv(what), "\n");
  if (!next.empty()) absl::StrAppend(&text, "  ", Sv(next), "\n");
  std::fflush(stdout);
  std::fputs(text.c_str(), stderr);
  return code;
}

ExitCode FailStatus(const absl::Status& status, std::string_view next) {
  const ExitCode code = status.code() == absl::StatusCode::kInvalidArgument ? kUsage : kFailure;
  return Fail(code, StdSv(status.message()), next);
}

// The coordinator itself said so: it drains, and the jobs it had are over.
static bool ShutDown(const grpc::Status& status) { return absl::StrContains(status.error_message(), "shutting down"); }

bool ConnectionBroke(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE && !ShutDown(status);
}

ExitCode CodeOfRpc(const grpc::Status& status, bool connected) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return kOk;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return kDeadline;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return kUsage;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return absl::StartsWith(status.error_message(), "queue is full") ? kQueueFull : kFailure;
    case grpc::StatusCode::UNAVAILABLE:
      return connected || ShutDown(status) ? kFailure : kNoCoordinator;
    default:
      return kFailure;
  }
}

ExitCode FailRpc(const grpc::Status& status, bool connected, std::string_view address) {
  const ExitCode code = CodeOfRpc(status, connected);
  std::string what = status.error_message();
  std::string next;
  switch (code) {
    case kDeadline:
      // gRPC's own text says "Deadline Exceeded" and nothing else.
      what = absl::StrCat("the deadline passed before the answer was complete (", what, ")");
      next = "give it more time with --deadline, or see what is ahead of it with: rondo jobs";
      break;
    case kQueueFull:
      next =
          "wait for a job to end (rondo jobs), then try again; rondo-coordinator --queue-limit makes the queue longer";
      break;
    case kNoCoordinator:
      what = absl::StrCat("lost the coordinator at ", Sv(address), ": ", what);
      next = "see whether it still runs with: rondo status; a job that it had accepted is run again when it is back";
      break;
    default:
      if (ShutDown(status)) {
        next = "submit the job again when the coordinator is back; a drain ends what was running";
      } else if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
        next = "see the groups with: rondo status; start one with: rondo up --workers 4 --model M.gguf";
      } else if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
        next = "see the jobs with: rondo jobs";
      } else if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
        next = absl::StrCat("whatever answers at ", Sv(address), " is no Rondo coordinator of this version");
      }
  }
  if (what.empty()) what = absl::StrCat("the call ended with gRPC code ", static_cast<int>(status.error_code()));
  return Fail(code, what, next);
}

}  // namespace rondo::cli
