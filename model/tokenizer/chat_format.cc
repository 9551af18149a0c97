#include "model/tokenizer/chat_format.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace rondo {
namespace {

// Texts that ChatML templates put into a system turn of their own where the user gives none.
constexpr std::string_view kDefaultSystems[] = {
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
};

// One text with a note of which bytes the format wrote.
class Rendering {
 public:
  Rendering& Format(std::string_view text) {
    if (!trusted_.empty() && trusted_.back().end == text_.size()) {
      trusted_.back().end += text.size();
    } else {
      trusted_.push_back({text_.size(), text_.size() + text.size()});
    }
    text_ += text;
    return *this;
  }
  Rendering& User(std::string_view text) {
    text_ += text;
    return *this;
  }
  std::vector<int32_t> Encode(const Tokenizer& tokenizer, bool add_special) const {
    return tokenizer.EncodeRendered(text_, trusted_, add_special);
  }

 private:
  std::string text_;
  std::vector<TrustedRange> trusted_;
};

std::string_view Trimmed(std::string_view text) { return StdSv(absl::StripAsciiWhitespace(Sv(text))); }

std::vector<int32_t> ChatMl(const Tokenizer& tokenizer, const ChatTurns& turns) {
  std::optional<std::string> system = turns.system;
  for (const std::string_view text : kDefaultSystems) {
    if (!system.has_value() && tokenizer.chat_template().find(text) != std::string::npos) system = text;
  }
  Rendering chat;
  if (system.has_value()) chat.Format("<|im_start|>system\n").User(*system).Format("<|im_end|>\n");
  chat.Format("<|im_start|>user\n").User(turns.user).Format("<|im_end|>\n<|im_start|>assistant\n");
  return chat.Encode(tokenizer, /*add_special=*/true);
}

// Templates of this kind write BOS themselves, so it comes whatever add_bos_token says, and once.
std::vector<int32_t> WithBos(const Tokenizer& tokenizer, std::vector<int32_t> ids) {
  if (tokenizer.bos().has_value() && (ids.empty() || ids.front() != *tokenizer.bos())) {
    ids.insert(ids.begin(), *tokenizer.bos());
  }
  return ids;
}

std::vector<int32_t> Llama3(const Tokenizer& tokenizer, const ChatTurns& turns) {
  Rendering chat;
  const auto turn = [&](std::string_view role, std::string_view text) {
    chat.Format("<|start_header_id|>").Format(role).Format("<|end_header_id|>\n\n").User(Trimmed(text));
    chat.Format("<|eot_id|>");
  };
  if (turns.system.has_value()) turn("system", *turns.system);
  turn("user", turns.user);
  chat.Format("<|start_header_id|>assistant<|end_header_id|>\n\n");
  return WithBos(tokenizer, chat.Encode(tokenizer, /*add_special=*/false));
}

std::vector<int32_t> Llama2(const Tokenizer& tokenizer, const ChatTurns& turns) {
  Rendering chat;
  chat.Format("[INST] ");
  if (turns.system.has_value()) chat.Format("<<SYS>>\n").User(*turns.system).Format("\n<</SYS>>\n\n");
  chat.User(Trimmed(turns.user)).Format(" [/INST]");
  return WithBos(tokenizer, chat.Encode(tokenizer, /*add_special=*/false));
}

std::vector<int32_t> Mistral(const Tokenizer& tokenizer, const ChatTurns& turns) {
  // Newer templates write '[INST]' with the text right behind it, older ones with spaces.
  const bool tight = tokenizer.chat_template().find("[INST] ") == std::string::npos;
  Rendering chat;
  chat.Format(tight ? "[INST]" : "[INST] ");
  if (turns.system.has_value()) chat.User(*turns.system).Format("\n\n");
  chat.User(turns.user).Format(tight ? "[/INST]" : " [/INST]");
  return WithBos(tokenizer, chat.Encode(tokenizer, /*add_special=*/false));
}

}  // namespace

absl::StatusOr<std::string> ChatFormatName(const Tokenizer& tokenizer) {
  const std::string& text = tokenizer.chat_template();
  const auto has = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  if (text.empty()) {
    return absl::FailedPreconditionError("the model file has no chat template; send the prompt as plain text instead");
  }
  if (has("<|im_start|>")) return has(kDefaultSystems[0]) ? "smollm2" : "chatml";
  if (has("<|start_header_id|>")) return "llama3";
  if (has("[SYSTEM_PROMPT]")) {
    return absl::UnimplementedError("the model's chat template uses [SYSTEM_PROMPT], a format that is not supported");
  }
  if (has("[INST]")) return has("<<SYS>>") ? "llama2" : "mistral";
  return absl::UnimplementedError(
      "the model's chat template is of an unknown kind; ChatML, Llama 3, Llama 2 and Mistral [INST] are supported");
}

absl::StatusOr<std::vector<int32_t>> EncodeChat(const Tokenizer& tokenizer, const ChatTurns& turns) {
  const absl::StatusOr<std::string> name = ChatFormatName(tokenizer);
  if (!name.ok()) return name.status();
  if (*name == "llama3") return Llama3(tokenizer, turns);
  if (*name == "llama2") return Llama2(tokenizer, turns);
  if (*name == "mistral") return Mistral(tokenizer, turns);
  return ChatMl(tokenizer, turns);
}

}  // namespace rondo
