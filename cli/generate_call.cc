#include "cli/generate_call.h"

#include "cli/option_names.h"
#include "cli/reattach.h"

namespace rondo::cli {
namespace {

absl::Status Dispatch(const v1::GenerateEvent& event, const GenerateEvents& events, GenerateOutcome* outcome) {
  switch (event.event_case()) {
    case v1::GenerateEvent::kAccepted:
      outcome->id = event.accepted().id();
      outcome->prompt_tokens = event.accepted().prompt_tokens();
      if (events.accepted) events.accepted(event.accepted());
      return absl::OkStatus();
    case v1::GenerateEvent::kProgress:
      if (events.progress) events.progress(event.progress());
      return absl::OkStatus();
    case v1::GenerateEvent::kDelta:
      outcome->text += event.delta().text();
      outcome->tokens.insert(outcome->tokens.end(), event.delta().tokens().begin(), event.delta().tokens().end());
      return events.delta ? events.delta(event.delta()) : absl::OkStatus();
    case v1::GenerateEvent::kLogits:
      return events.logits ? events.logits(event.logits()) : absl::OkStatus();
    case v1::GenerateEvent::kFinished:
      outcome->finished = true;
      outcome->result = event.finished();
      return absl::OkStatus();
    default:
      return absl::OkStatus();  // an event that a newer coordinator sends
  }
}

}  // namespace

GenerateOutcome RunGenerate(Client& client, const v1::GenerateRequest& request, absl::Time deadline,
                            Interrupt& interrupt, const GenerateEvents& events) {
  GenerateOutcome outcome;
  grpc::ClientContext context;
  if (deadline != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(deadline));
  const auto reader = client.stub().Generate(&context, request);
  interrupt.OnInterrupt([&context] { context.TryCancel(); });
  v1::GenerateEvent event;
  while (reader->Read(&event)) {
    outcome.local = Dispatch(event, events, &outcome);
    if (!outcome.local.ok()) {
      context.TryCancel();
      break;
    }
  }
  while (!outcome.local.ok() && reader->Read(&event)) {
  }
  outcome.status = reader->Finish();
  interrupt.OnInterrupt(nullptr);
  if (outcome.local.ok() && !interrupt.interrupted() && !request.want_logits() && !outcome.id.empty() &&
      ConnectionBroke(outcome.status)) {
    Reattach(client, deadline, interrupt, events, &outcome);
  }
  outcome.interrupted = interrupt.interrupted();
  return outcome;
}

v1::Finished CancelledResult(const GenerateOutcome& outcome) {
  v1::Finished result;
  result.set_id(outcome.id);
  result.set_finish_reason("cancelled");
  result.set_prompt_tokens(outcome.prompt_tokens);
  result.set_completion_tokens(outcome.tokens.size());
  return result;
}

ExitCode ReportOutcome(const Client& client, const GenerateOutcome& outcome) {
  if (outcome.interrupted) return Fail(kInterrupted, "interrupted; the job is cancelled", "");
  if (!outcome.local.ok()) return FailStatus(outcome.local, "the job is cancelled");
  if (!outcome.status.ok()) return client.Report(WithOptionNames(outcome.status, RequestFields()));
  if (!outcome.finished) {
    return Fail(kFailure, "the coordinator ended the answer without saying how it ended",
                "see its log, and: rondo jobs");
  }
  if (outcome.result.finish_reason() == "cancelled") {
    return Fail(kFailure, "the job was cancelled by someone else", "what it had drawn until then is above");
  }
  return kOk;
}

}  // namespace rondo::cli
