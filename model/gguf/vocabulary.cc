#include "model/gguf/vocabulary.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace rondo {
namespace {

constexpr uint64_t kMaxTokens = 1 << 26;

template <typename... Parts>
absl::Status Bad(const GgufFile& file, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(file.name(), ": ", StrCatPart(parts)...));
}

absl::Status ReadTokens(const GgufFile& file, Vocabulary* vocabulary) {
  absl::StatusOr<std::vector<std::string_view>> tokens = file.GetStrings("tokenizer.ggml.tokens");
  if (!tokens.ok()) return tokens.status();
  if (tokens->empty() || tokens->size() > kMaxTokens) {
    return Bad(file, "tokenizer.ggml.tokens has ", tokens->size(), " entries; 1 to ", kMaxTokens, " are read");
  }
  absl::flat_hash_map<absl::string_view, size_t> seen;
  seen.reserve(tokens->size());
  for (size_t id = 0; id < tokens->size(); ++id) {
    const auto [first, is_new] = seen.emplace(Sv((*tokens)[id]), id);
    if (!is_new) {
      return Bad(file, "tokenizer.ggml.tokens: tokens ", first->second, " and ", id, " have the same text");
    }
  }
  vocabulary->tokens = *std::move(tokens);
  vocabulary->types.assign(vocabulary->tokens.size(), TokenType::kNormal);
  if (!file.Has("tokenizer.ggml.token_type")) return absl::OkStatus();
  const absl::StatusOr<std::vector<int32_t>> types = file.GetI32s("tokenizer.ggml.token_type");
  if (!types.ok()) return types.status();
  if (types->size() != vocabulary->tokens.size()) {
    return Bad(file, "tokenizer.ggml.token_type has ", types->size(), " entries for ", vocabulary->tokens.size(),
               " tokens");
  }
  for (size_t id = 0; id < types->size(); ++id) {
    const int32_t type = (*types)[id];
    if (type < 0 || type > static_cast<int32_t>(TokenType::kByte)) {
      return Bad(file, "tokenizer.ggml.token_type of token ", id, " is ", type, "; 0 to 6 are known");
    }
    vocabulary->types[id] = static_cast<TokenType>(type);
  }
  return absl::OkStatus();
}

absl::Status ReadId(const GgufFile& file, std::string_view key, size_t tokens, std::optional<int32_t>* id) {
  const absl::StatusOr<std::optional<uint32_t>> value = file.FindU32(key);
  if (!value.ok()) return value.status();
  if (!value->has_value()) return absl::OkStatus();
  if (**value >= tokens) return Bad(file, key, " is ", **value, ", but the vocabulary has ", tokens, " tokens");
  *id = static_cast<int32_t>(**value);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Vocabulary> ReadVocabulary(const GgufFile& file) {
  Vocabulary vocabulary;
  const absl::StatusOr<std::string_view> model = file.GetString("tokenizer.ggml.model");
  if (!model.ok()) return model.status();
  vocabulary.model = *model;
  if (absl::Status status = ReadTokens(file, &vocabulary); !status.ok()) return status;
  const absl::StatusOr<std::optional<std::string_view>> pre = file.FindString("tokenizer.ggml.pre");
  if (!pre.ok()) return pre.status();
  vocabulary.pre = *pre;
  if (file.Has("tokenizer.ggml.merges")) {
    absl::StatusOr<std::vector<std::string_view>> merges = file.GetStrings("tokenizer.ggml.merges");
    if (!merges.ok()) return merges.status();
    vocabulary.merges = *std::move(merges);
  }
  if (const GgufValue* scores = file.Find("tokenizer.ggml.scores"); scores != nullptr) {
    const absl::StatusOr<std::vector<float>> values = file.GetF32s("tokenizer.ggml.scores");
    if (!values.ok()) return values.status();
    if (values->size() != vocabulary.tokens.size()) {
      return Bad(file, "tokenizer.ggml.scores has ", values->size(), " entries for ", vocabulary.tokens.size(),
                 " tokens");
    }
  }
  const struct {
    std::string_view key;
    std::optional<int32_t>* id;
  } ids[] = {{"tokenizer.ggml.bos_token_id", &vocabulary.bos},
             {"tokenizer.ggml.eos_token_id", &vocabulary.eos},
             {"tokenizer.ggml.eot_token_id", &vocabulary.eot},
             {"tokenizer.ggml.eom_token_id", &vocabulary.eom},
             {"tokenizer.ggml.unknown_token_id", &vocabulary.unknown}};
  for (const auto& [key, id] : ids) {
    if (absl::Status status = ReadId(file, key, vocabulary.tokens.size(), id); !status.ok()) return status;
  }
  const absl::StatusOr<std::optional<bool>> add_bos = file.FindBool("tokenizer.ggml.add_bos_token");
  if (!add_bos.ok()) return add_bos.status();
  vocabulary.add_bos = *add_bos;
  const absl::StatusOr<std::optional<bool>> add_eos = file.FindBool("tokenizer.ggml.add_eos_token");
  if (!add_eos.ok()) return add_eos.status();
  vocabulary.add_eos = *add_eos;
  const absl::StatusOr<std::optional<std::string_view>> chat = file.FindString("tokenizer.chat_template");
  if (!chat.ok()) return chat.status();
  vocabulary.chat_template = chat->value_or(std::string_view());
  return vocabulary;
}

}  // namespace rondo
