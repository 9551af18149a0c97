// One Generate call, from upload to its end: what `generate` and `verify` build on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/client_channel.h"
#include "cli/interrupt.h"

namespace rondo::cli {

// Called on the calling thread, in the order of the stream. An error ends the call with that error. Any may be empty.
struct GenerateEvents {
  std::function<void(const v1::Accepted&)> accepted;
  std::function<void(const v1::Progress&)> progress;
  std::function<absl::Status(const v1::Delta&)> delta;
  std::function<absl::Status(const v1::Logits&)> logits;
  std::function<void(const std::string&)> note;  // something worth a line of its own
};

struct GenerateOutcome {
  grpc::Status status;       // how the call ended
  absl::Status local;        // an error of a callback, which ended the call
  bool finished = false;     // `result` is there
  bool interrupted = false;  // by Ctrl-C
  std::string id;            // empty until the job was accepted
  uint64_t prompt_tokens = 0;
  v1::Finished result;
  std::string text;  // everything the deltas brought
  std::vector<int32_t> tokens;
};

// Blocks until the call is over. Ctrl-C cancels the job. If the connection breaks after the job was accepted, its
// answer is fetched from the coordinator that comes back (cli/reattach.h), unless logits are wanted: those are not
// kept.
GenerateOutcome RunGenerate(Client& client, const v1::GenerateRequest& request, absl::Time deadline,
                            Interrupt& interrupt, const GenerateEvents& events);

// For an outcome that was cancelled, by Ctrl-C or by others, and brought no result of its own: one that says so.
v1::Finished CancelledResult(const GenerateOutcome& outcome);

// kOk for a finished outcome, else prints what went wrong and returns its code.
ExitCode ReportOutcome(const Client& client, const GenerateOutcome& outcome);

}  // namespace rondo::cli
