// Cuts text into the words that BPE merges inside of, by the rule that a model was trained with; used by the tokenizer.
#pragma once

#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace rondo {

// What a model file's pre-tokenizer name stands for.
struct PreTokenizerRule {
  enum class Kind {
    kGpt2,    // runs of letters, of digits, of other characters, each with the space before it
    kDigits,  // every digit alone, then kGpt2 on what lies between
    kLlama3,  // digits in groups of up to three
    kQwen2,   // as kLlama3, every digit alone
  };
  Kind kind = Kind::kGpt2;
  bool whole_word_first = false;  // a word that is a token is taken whole, whatever the merges say
  bool add_bos = false;           // where the file does not say
};

// INVALID_ARGUMENT naming an unknown name and the known ones: a guess would give wrong ids without a word.
absl::StatusOr<PreTokenizerRule> FindPreTokenizerRule(std::string_view name);

// Immutable: any thread may split.
class PreTokenizer {
 public:
  explicit PreTokenizer(PreTokenizerRule::Kind kind);
  ~PreTokenizer();
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  // Calls `word` for each word in order; the words joined are `text`, which must be valid UTF-8.
  void Split(std::string_view text, absl::FunctionRef<void(std::string_view)> word) const;

 private:
  class Pattern;
  const PreTokenizerRule::Kind kind_;
  std::unique_ptr<const Pattern> words_;
  std::unique_ptr<const Pattern> digit_;  // kDigits only
};

}  // namespace rondo
