// Renders a chat turn in a model's own format and encodes it; used by the coordinator for chat requests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/tokenizer/tokenizer.h"

namespace rondo {

struct ChatTurns {
  std::optional<std::string> system;  // absent: the model's default, where its template has one
  std::string user;
};

// The ids of the turns and of the opening of the assistant's answer. The format is recognised by patterns in the file's
// chat template, which is never executed: smollm2 and other ChatML, llama3, llama2 and mistral [INST]. Control tokens
// come from the format alone, whatever the turns contain. FAILED_PRECONDITION where the model has no template,
// UNIMPLEMENTED where it is of another kind.
absl::StatusOr<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer, const ChatTurns& turns);

// The name of the format that EncodeChat would use ("smollm2", "chatml", "llama3", "llama2", "mistral"), or its error.
absl::StatusOr<std::string> ChatFormatName(const Tokenizer& tokenizer);

}  // namespace rondo
