// A job outlives the stream that asked for it: when the connection breaks, the coordinator that comes back runs the job
// again from its journal, and the rest of the answer is asked for. Used by generate_call.
#pragma once

#include "absl/time/time.h"
#include "cli/generate_call.h"

namespace rondo::cli {

// How long a coordinator may be away. Starting one again takes seconds.
inline constexpr absl::Duration kReattachPatience = absl::Seconds(20);

// Asks for job outcome->id until it is over, the deadline passes or nobody has answered for kReattachPatience; then
// `outcome` is what the stream would have made it, and events.delta has had the rest of the text. Ctrl-C cancels the
// job. A job that the coordinator does not know is NOT_FOUND.
void Reattach(Client& client, absl::Time deadline, Interrupt& interrupt, const GenerateEvents& events,
              GenerateOutcome* outcome);

// Takes in what GetJob says: gives out new text and progress, and returns whether the job is over and `outcome`
// complete. Text other than what was given out before is an error, outcome->local.
bool TakeJob(const v1::Job& job, const GenerateEvents& events, GenerateOutcome* outcome);

}  // namespace rondo::cli
