#include "coordinator/rpc/prepare_job.h"

#include <charconv>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "coordinator/journal/result_proto.h"
#include "model/sampler/sampler.h"
#include "model/tokenizer/chat_format.h"

namespace rondo::coordinator {
namespace {

constexpr std::string_view kWhite = " \t\r\n\v\f";
constexpr int kMaxStops = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(StrCatPart(parts)...));
}

absl::StatusOr<std::string> Fetch(const v1::Content& content, const char* field, UploadStore& uploads, int64_t now) {
  if (content.source_case() == v1::Content::kUploadId) {
    auto data = uploads.Find(content.upload_id(), now);
    if (!data.ok()) return absl::Status(data.status().code(), absl::StrCat(field, ": ", data.status().message()));
    return **data;
  }
  if (content.inline_().size() > kInlineLimitBytes) {
    return Invalid(field, ": ", content.inline_().size(), " bytes inline, at most ", kInlineLimitBytes,
                   " are allowed; upload it first");
  }
  return content.inline_();
}

absl::StatusOr<std::vector<int32_t>> ChatIds(const v1::ChatPrompt& chat, const Tokenizer& tokenizer,
                                             UploadStore& uploads, int64_t now) {
  ChatTurns turns;
  if (chat.has_system()) {
    auto system = Fetch(chat.system(), "prompt.chat.system", uploads, now);
    if (!system.ok()) return system.status();
    turns.system = *std::move(system);
  }
  auto question = Fetch(chat.question(), "prompt.chat.question", uploads, now);
  if (!question.ok()) return question.status();
  if (chat.has_document()) {
    auto document = Fetch(chat.document(), "prompt.chat.document", uploads, now);
    if (!document.ok()) return document.status();
    turns.user = *std::move(document);
    const size_t last = turns.user.find_last_not_of(kWhite);
    turns.user.resize(last == std::string::npos ? 0 : last + 1);
    if (!turns.user.empty() && !question->empty()) turns.user += "\n\n";
  }
  turns.user += *question;
  if (turns.user.empty()) return Invalid("prompt.chat: document and question are empty");
  return EncodeChat(tokenizer, turns);
}

absl::StatusOr<std::vector<int32_t>> PromptIds(const v1::Prompt& prompt, const Tokenizer& tokenizer,
                                               UploadStore& uploads, int64_t now) {
  switch (prompt.kind_case()) {
    case v1::Prompt::kChat:
      return ChatIds(prompt.chat(), tokenizer, uploads, now);
    case v1::Prompt::kText: {
      auto text = Fetch(prompt.text(), "prompt.text", uploads, now);
      if (!text.ok()) return text.status();
      if (text->empty()) return Invalid("prompt.text is empty");
      return tokenizer.Encode(*text, true);
    }
    case v1::Prompt::kIds: {
      auto text = Fetch(prompt.ids(), "prompt.ids", uploads, now);
      if (!text.ok()) return text.status();
      return ParseIds(*text, tokenizer.vocab_size());
    }
    case v1::Prompt::KIND_NOT_SET:
      break;
  }
  return Invalid("prompt: one of chat, text and ids is needed");
}

SamplingSettings Settings(const v1::GenerateRequest& request) {
  SamplingSettings settings = FromProto(request.sampling());
  // proto3 does not tell "absent" from 0, and 0 is no use: it means off, as 1 does.
  if (settings.top_p == 0) settings.top_p = 1;
  return settings;
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> ParseIds(std::string_view text, int32_t vocab) {
  std::vector<int32_t> ids;
  for (size_t at = text.find_first_not_of(kWhite); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kWhite, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    int64_t id = -1;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    const bool whole = error == std::errc() && stop == word.data() + word.size();
    if (!whole && error != std::errc::result_out_of_range) {
      return Invalid("prompt.ids: position ", ids.size(), ": \"", word.substr(0, 32), "\" is not a decimal number");
    }
    if (!whole || id < 0 || id >= vocab) {
      return Invalid("prompt.ids: position ", ids.size(), ": ", word.substr(0, 32), " is not in 0..", vocab - 1);
    }
    ids.push_back(static_cast<int32_t>(id));
    at = text.find_first_not_of(kWhite, end);
  }
  return ids;
}

absl::Status CheckRequest(const v1::GenerateRequest& request) {
  if (request.prompt().kind_case() == v1::Prompt::KIND_NOT_SET) {
    return Invalid("prompt: one of chat, text and ids is needed");
  }
  if (request.forced_tokens().empty() && request.max_tokens() < 1) {
    return Invalid("max_tokens: ", request.max_tokens(), ", at least 1 is needed");
  }
  if (request.max_tokens() > kMaxTokens) {
    return Invalid("max_tokens: ", request.max_tokens(), ", at most ", kMaxTokens, " are allowed");
  }
  if (request.stop_size() > kMaxStops) {
    return Invalid("stop: ", request.stop_size(), " strings, at most ", kMaxStops, " are allowed");
  }
  for (int i = 0; i < request.stop_size(); ++i) {
    if (request.stop(i).empty() || request.stop(i).size() > kMaxStopBytes) {
      return Invalid("stop[", i, "]: ", request.stop(i).size(), " bytes, 1 to ", kMaxStopBytes, " are allowed");
    }
  }
  const SamplingSettings s = Settings(request);
  return Validate(SamplingParams{s.temperature, s.top_k, s.top_p, s.min_p, s.seed});
}

absl::StatusOr<JobSpec> PrepareJob(const v1::GenerateRequest& request, const ModelInfo& model, UploadStore& uploads,
                                   int64_t now) {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  const int32_t vocab = model.tokenizer->vocab_size();
  for (int i = 0; i < request.forced_tokens_size(); ++i) {
    if (request.forced_tokens(i) < 0 || request.forced_tokens(i) >= vocab) {
      return Invalid("forced_tokens[", i, "]: ", request.forced_tokens(i), " is not in 0..", vocab - 1);
    }
  }
  absl::StatusOr<std::vector<int32_t>> ids = PromptIds(request.prompt(), *model.tokenizer, uploads, now);
  if (!ids.ok()) return ids.status();
  if (ids->empty()) return Invalid("prompt: it has no tokens");
  JobSpec spec;
  spec.prompt_tokens = static_cast<int64_t>(ids->size());
  spec.prompt = std::make_shared<const std::vector<int32_t>>(*std::move(ids));
  spec.forced_tokens.assign(request.forced_tokens().begin(), request.forced_tokens().end());
  spec.max_tokens =
      spec.forced_tokens.empty() ? request.max_tokens() : static_cast<uint32_t>(spec.forced_tokens.size());
  const int64_t total = spec.prompt_tokens + int64_t{spec.max_tokens};
  if (!request.beyond_context() && total > model.context) {
    return Invalid("prompt: ", spec.prompt_tokens, " tokens + max_tokens ", spec.max_tokens, " = ", total,
                   " exceed the trained context of ", model.context, " tokens (set beyond_context to allow it)");
  }
  if (total > kMaxTokens) return Invalid("prompt + max_tokens: ", total, " tokens, at most ", kMaxTokens);
  spec.sampling = Settings(request);
  spec.stops.assign(request.stop().begin(), request.stop().end());
  spec.want_logits = request.want_logits();
  spec.ring_size = request.ring_size();
  spec.reference = request.reference();
  return spec;
}

}  // namespace rondo::coordinator
