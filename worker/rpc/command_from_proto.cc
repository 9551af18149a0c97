#include "worker/rpc/command_from_proto.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/attention_spec.h"

namespace rondo {

absl::StatusOr<Command> CommandAssembler::Take(const v1::CoordinatorMessage& message) {
  Command command;
  command.number = message.number();
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kPromptIds: {
      const v1::PromptIds& slice = message.prompt_ids();
      std::vector<int32_t>& ids = prompts_[slice.job_id()];
      ids.insert(ids.end(), slice.ids().begin(), slice.ids().end());
      command.what = NoCommand{};
      return command;
    }
    case v1::CoordinatorMessage::kStart: {
      absl::StatusOr<StartJob> start = Start(message.start());
      if (!start.ok()) return start.status();
      command.what = *std::move(start);
      return command;
    }
    case v1::CoordinatorMessage::kCancel:
      prompts_.erase(message.cancel().job_id());
      command.what = CancelJob{message.cancel().job_id(), message.cancel().reason()};
      return command;
    case v1::CoordinatorMessage::kOpenAttention: {
      const v1::OpenAttention& from = message.open_attention();
      absl::StatusOr<AttentionJobSpec> spec = FromProto(from.spec());
      // The coordinator has checked it by the same rules.
      if (!spec.ok()) return absl::InternalError(absl::StrCat("job ", from.job_id(), ": ", spec.status().message()));
      command.what = OpenAttention{from.job_id(), from.token(), *std::move(spec), static_cast<int>(from.ring_size())};
      return command;
    }
    case v1::CoordinatorMessage::kRunAttention:
      command.what = RunAttention{message.run_attention().job_id()};
      return command;
    default:
      return absl::InternalError(
          absl::StrCat("command ", message.number(), " is of a kind this version does not know"));
  }
}

absl::StatusOr<StartJob> CommandAssembler::Start(const v1::StartJob& from) {
  StartJob job;
  job.id = from.job_id();
  if (const auto prompt = prompts_.find(job.id); prompt != prompts_.end()) {
    job.prompt = std::move(prompt->second);
    prompts_.erase(prompt);
  }
  if (job.prompt.size() != from.prompt_tokens()) {
    return absl::InternalError(
        absl::StrCat("job ", job.id, ": ", job.prompt.size(), " prompt ids arrived, expected ", from.prompt_tokens()));
  }
  job.max_tokens = from.max_tokens();
  job.sampling = {from.sampling().temperature(), from.sampling().top_k(), from.sampling().top_p(),
                  from.sampling().min_p(), from.sampling().seed()};
  job.stops.assign(from.stop().begin(), from.stop().end());
  job.want_logits = from.want_logits();
  job.ring_size = static_cast<int>(from.ring_size());
  job.forced_tokens.assign(from.forced_tokens().begin(), from.forced_tokens().end());
  job.reference = from.reference();
  job.request_number = from.request_number();
  return job;
}

}  // namespace rondo
