#include "model/tokenizer/tokenizer.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/text.h"
#include "model/gguf/vocabulary.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/utf8.h"

namespace rondo {
namespace {

// Texts that end a turn or a document in the vocabularies we know, whatever type the file gives them.
constexpr std::string_view kEndTexts[] = {"<|im_end|>", "<|eot_id|>",    "<|endoftext|>",
                                          "<|eom_id|>", "<end_of_turn>", "<|end_of_text|>"};
// These may be plain words of a vocabulary that saw HTML: ends only where the file does not call them normal.
constexpr std::string_view kEndTextsIfSpecial[] = {"</s>", "<eos>"};

bool Contains(absl::Span<const std::string_view> texts, std::string_view text) {
  for (const std::string_view one : texts) {
    if (one == text) return true;
  }
  return false;
}

bool IsControl(TokenType type) { return type == TokenType::kControl || type == TokenType::kUnknown; }

}  // namespace

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::FromGguf(const GgufFile& file) {
  const absl::StatusOr<Vocabulary> vocabulary = ReadVocabulary(file);
  if (!vocabulary.ok()) return vocabulary.status();
  if (vocabulary->model != "gpt2") {
    return absl::UnimplementedError(absl::StrCat(file.name(), ": tokenizer.ggml.model is \"", Sv(vocabulary->model),
                                                 "\"; \"gpt2\" (byte-level BPE) is supported"));
  }
  if (!vocabulary->pre.has_value() || *vocabulary->pre == "default") {
    LogWarning(file.name(),
               ": the file names no pre-tokenizer; gpt-2's rule is used, and ids may differ from training");
  }
  const absl::StatusOr<PreTokenizerRule> rule = FindPreTokenizerRule(vocabulary->pre.value_or("default"));
  if (!rule.ok()) return absl::InvalidArgumentError(absl::StrCat(file.name(), ": ", rule.status().message()));
  std::shared_ptr<Tokenizer> tokenizer(new Tokenizer(*vocabulary, *rule));
  if (absl::Status status = tokenizer->AddMerges(*vocabulary); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file.name(), ": ", status.message()));
  }
  return tokenizer;
}

Tokenizer::Tokenizer(const Vocabulary& vocabulary, PreTokenizerRule rule)
    : rule_(rule),
      pre_tokenizer_(rule.kind),
      texts_(vocabulary.tokens.begin(), vocabulary.tokens.end()),
      bytes_(vocabulary.tokens.size()),
      bos_(vocabulary.bos),
      eos_(vocabulary.eos),
      add_bos_(vocabulary.add_bos.value_or(rule.add_bos)),
      add_eos_(vocabulary.add_eos.value_or(false)),
      chat_template_(vocabulary.chat_template) {
  MarkEnds(vocabulary);
  for (size_t i = 0; i < texts_.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const TokenType type = vocabulary.types[i];
    if (IsControl(type)) {
      specials_.Add(texts_[i], id, /*control=*/true);
    } else if (ends_[i] || bos_ == id) {  // control tokens by their use, whatever type the file gives them
      specials_.Add(texts_[i], id, /*control=*/true);
    } else if (type == TokenType::kUserDefined) {
      specials_.Add(texts_[i], id, /*control=*/false);
      bytes_[i] = texts_[i];  // stored as it is, not in the byte alphabet
    } else if (type != TokenType::kUnused) {
      bytes_[i] = BytesOfLetters(texts_[i]);
      if (rule.whole_word_first) id_of_word_.try_emplace(bytes_[i], id);
    }
  }
  specials_.Seal();
}

void Tokenizer::MarkEnds(const Vocabulary& vocabulary) {
  ends_.assign(texts_.size(), false);
  for (const std::optional<int32_t> id : {vocabulary.eos, vocabulary.eot, vocabulary.eom}) {
    if (id.has_value()) ends_[static_cast<size_t>(*id)] = true;
  }
  for (size_t i = 0; i < texts_.size(); ++i) {
    const bool is_special = vocabulary.types[i] != TokenType::kNormal;
    if (Contains(kEndTexts, texts_[i]) || (is_special && Contains(kEndTextsIfSpecial, texts_[i]))) ends_[i] = true;
  }
}

// A merge whose parts or whole are no tokens would be applied by nobody's reference: the file is broken.
absl::Status Tokenizer::AddMerges(const Vocabulary& vocabulary) {
  absl::flat_hash_map<absl::string_view, int32_t> ids;
  ids.reserve(texts_.size());
  for (size_t i = 0; i < texts_.size(); ++i) ids.emplace(texts_[i], static_cast<int32_t>(i));
  const auto find = [&](std::string_view text) {
    const auto found = ids.find(Sv(text));
    return found == ids.end() ? -1 : found->second;
  };
  for (int byte = 0; byte < 256; ++byte) {
    id_of_byte_[static_cast<size_t>(byte)] = find(LetterOfByte(static_cast<uint8_t>(byte)));
  }
  merges_.Reserve(vocabulary.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string_view merge = vocabulary.merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("merge ", rank, " of tokenizer.ggml.merges is \"", Sv(merge), "\"; two parts are expected"));
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    const int32_t left_id = find(left);
    const int32_t right_id = find(right);
    const int32_t result = find(joined);
    if (left_id < 0 || right_id < 0 || result < 0) {
      return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " of tokenizer.ggml.merges is \"", Sv(merge),
                                                     "\", but not all of its parts and its result are tokens"));
    }
    // Merging must not be a way from user text to a control token.
    if (bytes_[static_cast<size_t>(result)].empty()) {
      return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " of tokenizer.ggml.merges, \"", Sv(merge),
                                                     "\", makes token ", result, ", which is no normal token"));
    }
    merges_.Add(left_id, right_id, {static_cast<int32_t>(rank), result});
  }
  for (int32_t& id : id_of_byte_) {
    if (id >= 0 && bytes_[static_cast<size_t>(id)].empty()) id = -1;
  }
  return absl::OkStatus();
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, bool add_special) const {
  return EncodeRendered(text, {}, add_special);
}

std::vector<int32_t> Tokenizer::EncodeRendered(std::string_view text, absl::Span<const TrustedRange> trusted,
                                               bool add_special) const {
  std::vector<int32_t> ids;
  BpeMerger merger(merges_);
  size_t at = 0;
  while (at < text.size()) {
    const std::optional<SpecialMatcher::Match> special = specials_.Find(text, at, trusted);
    const size_t run_end = special.has_value() ? special->begin : text.size();
    EncodeRun(text.substr(at, run_end - at), merger, &ids);
    if (!special.has_value()) break;
    ids.push_back(special->id);
    at = special->begin + special->bytes;
  }
  if (!add_special) return ids;
  if (add_bos_ && bos_.has_value() && (ids.empty() || ids.front() != *bos_)) ids.insert(ids.begin(), *bos_);
  if (add_eos_ && eos_.has_value()) ids.push_back(*eos_);
  return ids;
}

void Tokenizer::EncodeRun(std::string_view run, BpeMerger& merger, std::vector<int32_t>* ids) const {
  while (!run.empty()) {
    const size_t valid = ValidUtf8Prefix(run);
    pre_tokenizer_.Split(run.substr(0, valid), [&](std::string_view word) { EncodeWord(word, merger, ids); });
    run.remove_prefix(valid);
    if (run.empty()) return;
    const int32_t id = id_of_byte_[static_cast<uint8_t>(run[0])];
    if (id >= 0) ids->push_back(id);
    run.remove_prefix(1);
  }
}

void Tokenizer::EncodeWord(std::string_view word, BpeMerger& merger, std::vector<int32_t>* ids) const {
  if (rule_.whole_word_first) {
    if (const auto whole = id_of_word_.find(Sv(word)); whole != id_of_word_.end()) {
      ids->push_back(whole->second);
      return;
    }
  }
  merger.Merge(word, id_of_byte_, ids);
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  return id < 0 || id >= vocab_size() ? std::string_view() : bytes_[static_cast<size_t>(id)];
}

std::string_view Tokenizer::TokenText(int32_t id) const {
  return id < 0 || id >= vocab_size() ? std::string_view() : texts_[static_cast<size_t>(id)];
}

bool Tokenizer::IsEnd(int32_t id) const { return id >= 0 && id < vocab_size() && ends_[static_cast<size_t>(id)]; }

}  // namespace rondo
