// The tokenizer section of a GGUF file, read and checked; the tokenizer is built from it, and --check-model reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/gguf/gguf_file.h"

namespace rondo {

// Numbered as in the file.
enum class TokenType : int32_t { kUndefined, kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

// Views into the file. Every id in it is below tokens.size().
struct Vocabulary {
  std::string_view model;                // "gpt2" is byte-level BPE
  std::optional<std::string_view> pre;   // name of the pre-tokenizer
  std::vector<std::string_view> tokens;  // each text once
  std::vector<TokenType> types;          // [tokens]
  std::vector<std::string_view> merges;  // "left right", best first
  std::optional<int32_t> bos, eos, eot, eom, unknown;
  std::optional<bool> add_bos, add_eos;
  std::string_view chat_template;  // empty: none
};

// INVALID_ARGUMENT naming the key, the value and the limit; NOT_FOUND where the file has no vocabulary.
absl::StatusOr<Vocabulary> ReadVocabulary(const GgufFile& file);

}  // namespace rondo
