// Text to token ids and back, for byte-level BPE vocabularies from a GGUF file; used by the coordinator. Ids travel
// inside Rondo, text stays at its edge.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "model/gguf/gguf_file.h"
#include "model/tokenizer/bpe.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/special_matcher.h"

namespace rondo {

struct Vocabulary;

// Immutable: any thread may encode and decode. Holds copies: the GgufFile may go.
class Tokenizer {
 public:
  // UNIMPLEMENTED for a vocabulary that is not byte-level BPE; INVALID_ARGUMENT naming the key for a broken one and for
  // an unknown pre-tokenizer. A missing pre-tokenizer name is read as "gpt-2", with a warning in the log.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> FromGguf(const GgufFile& file);

  // The ids of a user's text. Never yields a control token from the text: control texts in it are plain characters.
  // add_special: BOS in front and EOS behind where the model wants them. Any bytes may be given: those that are not
  // valid UTF-8 are encoded one by one, so that decoding gives them back. A byte for which the vocabulary has no token
  // (SmolLM2 lacks 21, such as U+0004 and 0xC0) yields nothing.
  std::vector<int32_t> Encode(std::string_view text, bool add_special) const;

  // The ids of a text that a chat format rendered: control tokens are matched inside `trusted` alone, and what lies
  // between special tokens is encoded whole, across the borders of the user's part. add_special as above, but a text
  // that begins with BOS already gets no second one.
  std::vector<int32_t> EncodeRendered(std::string_view text, absl::Span<const TrustedRange> trusted,
                                      bool add_special) const;

  // What the token adds to the text, as bytes (perhaps part of a character): empty for control tokens, end tokens and
  // ids outside the vocabulary.
  std::string_view TokenBytes(int32_t id) const;

  // The token's text as the file has it; empty outside the vocabulary. For people and for messages, not for output.
  std::string_view TokenText(int32_t id) const;

  // Whether generation ends with this token: the file's EOS, EOT and EOM, and the well-known end texts.
  bool IsEnd(int32_t id) const;

  int32_t vocab_size() const { return static_cast<int32_t>(texts_.size()); }
  std::optional<int32_t> bos() const { return bos_; }
  bool add_bos() const { return add_bos_; }
  const std::string& chat_template() const { return chat_template_; }  // empty: none

 private:
  Tokenizer(const Vocabulary& vocabulary, PreTokenizerRule rule);
  absl::Status AddMerges(const Vocabulary& vocabulary);
  void MarkEnds(const Vocabulary& vocabulary);
  void EncodeRun(std::string_view run, BpeMerger& merger, std::vector<int32_t>* ids) const;
  void EncodeWord(std::string_view word, BpeMerger& merger, std::vector<int32_t>* ids) const;

  const PreTokenizerRule rule_;
  const PreTokenizer pre_tokenizer_;
  std::vector<std::string> texts_;  // [vocab]
  std::vector<std::string> bytes_;  // [vocab]
  std::vector<bool> ends_;          // [vocab]
  std::vector<int32_t> id_of_byte_ = std::vector<int32_t>(256, -1);
  absl::flat_hash_map<std::string, int32_t> id_of_word_;  // bytes of a normal token to its id; whole_word_first only
  MergeTable merges_;
  SpecialMatcher specials_;
  std::optional<int32_t> bos_, eos_;
  bool add_bos_ = false;
  bool add_eos_ = false;
  std::string chat_template_;
};

}  // namespace rondo
