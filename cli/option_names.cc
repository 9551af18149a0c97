#include "cli/option_names.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"

namespace rondo::cli {
namespace {

// --prompt-file fills the field of --prompt.
constexpr FieldOption kRequest[] = {
    {"prompt.chat.document", "--document"},
    {"prompt.chat.question", "--question"},
    {"prompt.chat.system", "--system"},
    {"prompt.chat", "--document and --question"},
    {"prompt.text", "--prompt"},
    {"prompt.ids", "--prompt-ids"},
    {"max_tokens", "--max-tokens"},
    {"ring_size", "--ring-size"},
    {"stop", "--stop"},
    {"temperature", "--temperature"},
    {"top_k", "--top-k"},
    {"top_p", "--top-p"},
    {"min_p", "--min-p"},
};

constexpr FieldOption kAttend[] = {
    {"sequence_starts", "--cu-seqlens"},
    {"alibi_slopes", "--alibi"},
    {"ring_size", "--workers"},
    {"softcap", "--softcap"},
    {"window", "--window"},
    {"scale", "--scale"},
    {"sinks", "--sinks"},
};

}  // namespace

absl::Span<const FieldOption> RequestFields() { return kRequest; }
absl::Span<const FieldOption> AttendFields() { return kAttend; }

grpc::Status WithOptionNames(const grpc::Status& status, absl::Span<const FieldOption> fields) {
  if (status.error_code() != grpc::StatusCode::INVALID_ARGUMENT) return status;
  std::string text = status.error_message();
  for (const FieldOption& known : fields) {
    if (!text.starts_with(known.field)) continue;
    const std::string rest = text.substr(known.field.size());
    // "stop[2]: ..." too, but not a field that only begins like this one.
    if (rest.empty() || std::string_view(": [").find(rest.front()) == std::string_view::npos) continue;
    text = absl::StrCat(Sv(known.option), rest);
    break;
  }
  absl::StrReplaceAll(
      {{"+ max_tokens ", "+ --max-tokens "}, {"(set beyond_context to allow it)", "(--beyond-context allows it)"}},
      &text);
  return grpc::Status(status.error_code(), text);
}

}  // namespace rondo::cli
