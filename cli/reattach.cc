#include "cli/reattach.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace rondo::cli {
namespace {

constexpr absl::Duration kPollEvery = absl::Milliseconds(200);
constexpr absl::Duration kCallTimeout = absl::Seconds(5);

grpc::Status GetJob(Client& client, const std::string& id, absl::Time deadline, v1::Job* job) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(std::min(deadline, absl::Now() + kCallTimeout)));
  v1::GetJobRequest request;
  request.set_id(id);
  return client.stub().GetJob(&context, request, job);
}

// Ctrl-C ends the program after two seconds: what the coordinator says to this changes nothing.
void Cancel(Client& client, const std::string& id) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  v1::CancelJobRequest request;
  request.set_id(id);
  v1::CancelJobReply reply;
  client.stub().CancelJob(&context, request, &reply);
}

}  // namespace

bool TakeJob(const v1::Job& job, const GenerateEvents& events, GenerateOutcome* outcome) {
  const bool over = job.state() != "queued" && job.state() != "running";
  if (!job.text_known()) {
    // Its model is known when a group joins again; what has failed needs no text.
    if (job.state() == "failed") outcome->status = grpc::Status(grpc::StatusCode(job.error_code()), job.error());
    return job.state() == "failed";
  }
  // Until the job has caught up with what was drawn before, there may be less than is shown already.
  if (job.text().size() > outcome->text.size() || over) {
    if (!absl::StartsWith(job.text(), outcome->text)) {
      if (!over || job.state() == "finished") {
        outcome->local = absl::DataLossError(absl::StrCat(
            "job ", job.id(), " was run again and gave another text than before; see: rondo jobs ", job.id()));
        return true;
      }
    } else {
      v1::Delta rest;
      rest.set_text(job.text().substr(outcome->text.size()));
      outcome->text = job.text();
      outcome->tokens.assign(job.tokens().begin(), job.tokens().end());
      if (events.delta) outcome->local = events.delta(rest);
      if (!outcome->local.ok()) return true;
    }
  }
  if (!over) {
    if (!events.progress || (job.prefill_fraction() == 0 && job.state() == "running")) return false;
    v1::Progress progress;
    progress.set_phase(job.state() == "queued" ? v1::Progress::QUEUED : v1::Progress::PREFILL);
    progress.set_fraction(job.prefill_fraction());
    progress.set_queue_position(job.queue_position());
    if (job.state() == "queued" || job.prefill_fraction() < 1) events.progress(progress);
    return false;
  }
  if (job.state() == "failed") {
    outcome->status = grpc::Status(grpc::StatusCode(job.error_code()), job.error());
  } else {
    outcome->status = grpc::Status::OK;
    outcome->finished = true;
    outcome->result = job.result();
  }
  return true;
}

void Reattach(Client& client, absl::Time deadline, Interrupt& interrupt, const GenerateEvents& events,
              GenerateOutcome* outcome) {
  if (events.note) {
    events.note(absl::StrCat("lost the coordinator at ", client.address(), " (", outcome->status.error_message(),
                             "); asking for job ", outcome->id, " until it is back"));
  }
  absl::Time give_up = absl::Now() + kReattachPatience;
  while (!interrupt.interrupted()) {
    v1::Job job;
    const grpc::Status status = GetJob(client, outcome->id, deadline, &job);
    if (absl::Now() >= deadline) {
      outcome->status = grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "after the connection had broken");
      return;
    }
    if (status.ok()) {
      if (TakeJob(job, events, outcome)) {
        if (!outcome->local.ok()) Cancel(client, outcome->id);
        return;
      }
      // A job that is over has a text to come only if its model does: that wait has its end, too.
      const bool over = job.state() != "queued" && job.state() != "running";
      if (!over) give_up = absl::Now() + kReattachPatience;
      if (absl::Now() >= give_up) {
        outcome->status = grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                       absl::StrCat("job ", outcome->id, " is ", job.state(),
                                                    ", and no group with its model is there to tell its ",
                                                    "text; later: rondo jobs ", outcome->id));
        return;
      }
    } else if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
      outcome->status =
          grpc::Status(status.error_code(), absl::StrCat("the coordinator that came back does not know job ",
                                                         outcome->id, ": it keeps no journal, or another one"));
      return;
    } else if (absl::Now() >= give_up) {
      return;  // with the status of the broken stream
    }
    absl::SleepFor(kPollEvery);
  }
  Cancel(client, outcome->id);
}

}  // namespace rondo::cli
