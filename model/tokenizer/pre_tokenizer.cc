#define PCRE2_CODE_UNIT_WIDTH 8

#include "model/tokenizer/pre_tokenizer.h"

#include <pcre2.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/text.h"

namespace rondo {
namespace {

// The characters of Unicode's White_Space, spelled out: PCRE2's \s also takes U+180E, which no tokenizer does.
#define WHITE R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"

// The published patterns of GPT-2, Llama 3 and Qwen2. None of them backtracks over more than one run of characters.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^)" WHITE R"(\p{L}\p{N}]+|[)" WHITE
                                     R"(]+(?![^)" WHITE R"(])|[)" WHITE R"(]+)";
constexpr const char* kLlama3Pattern =
    R"('[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^)" WHITE
    R"(\p{L}\p{N}]+[\r\n]*|[)" WHITE R"(]*[\r\n]+|[)" WHITE R"(]+(?![^)" WHITE R"(])|[)" WHITE R"(]+)";
constexpr const char* kQwen2Pattern =
    R"('[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^)" WHITE
    R"(\p{L}\p{N}]+[\r\n]*|[)" WHITE R"(]*[\r\n]+|[)" WHITE R"(]+(?![^)" WHITE R"(])|[)" WHITE R"(]+)";
constexpr const char* kDigitPattern = R"(\p{N})";
#undef WHITE

const char* WordPattern(PreTokenizerRule::Kind kind) {
  switch (kind) {
    case PreTokenizerRule::Kind::kGpt2:
    case PreTokenizerRule::Kind::kDigits:
      return kGpt2Pattern;
    case PreTokenizerRule::Kind::kLlama3:
      return kLlama3Pattern;
    case PreTokenizerRule::Kind::kQwen2:
      return kQwen2Pattern;
  }
  return kGpt2Pattern;
}

struct NamedRule {
  std::string_view name;
  PreTokenizerRule rule;
};
using Kind = PreTokenizerRule::Kind;
// Names that the GGUF converters write.
constexpr NamedRule kRules[] = {
    {"gpt-2", {Kind::kGpt2, false, false}},       {"default", {Kind::kGpt2, false, false}},
    {"phi-2", {Kind::kGpt2, false, false}},       {"mpt", {Kind::kGpt2, false, false}},
    {"olmo", {Kind::kGpt2, false, false}},        {"jais", {Kind::kGpt2, false, false}},
    {"smollm", {Kind::kDigits, false, false}},    {"starcoder", {Kind::kDigits, false, false}},
    {"refact", {Kind::kDigits, false, false}},    {"command-r", {Kind::kDigits, false, false}},
    {"codeshell", {Kind::kDigits, false, false}}, {"exaone", {Kind::kDigits, false, false}},
    {"llama-bpe", {Kind::kLlama3, true, true}},   {"llama3", {Kind::kLlama3, true, true}},
    {"llama-v3", {Kind::kLlama3, true, true}},    {"falcon3", {Kind::kLlama3, true, true}},
    {"dbrx", {Kind::kLlama3, false, false}},      {"smaug-bpe", {Kind::kLlama3, false, false}},
    {"qwen2", {Kind::kQwen2, false, false}},      {"deepseek-r1-qwen", {Kind::kQwen2, false, false}},
    {"stablelm2", {Kind::kQwen2, false, false}},
};

}  // namespace

absl::StatusOr<PreTokenizerRule> FindPreTokenizerRule(std::string_view name) {
  std::string known;
  for (const NamedRule& rule : kRules) {
    if (rule.name == name) return rule.rule;
    absl::StrAppend(&known, known.empty() ? "" : ", ", Sv(rule.name));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer.ggml.pre is \"", Sv(name), "\", a pre-tokenizer that is not known; known are ", known));
}

// One compiled regular expression. The compiled code is shared by all threads; a match has its own state.
class PreTokenizer::Pattern {
 public:
  explicit Pattern(const char* pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error,
                          &offset, nullptr);
    RONDO_CHECK(code_ != nullptr);
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // where there is no JIT, pcre2_match interprets
  }
  ~Pattern() { pcre2_code_free(code_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  // Walks over `text`, calling `piece(text, matched)` for every match and every stretch between matches.
  template <typename Piece>
  void Walk(std::string_view text, Piece piece) const {
    pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
    pcre2_match_context* context = pcre2_match_context_create(nullptr);
    // The patterns need no more than one backtrack a character; the default limit would end a run of ten million
    // spaces.
    pcre2_set_match_limit(context, UINT32_MAX);
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
    size_t at = 0;
    while (at < text.size()) {
      const int found = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                    PCRE2_NO_UTF_CHECK, match, context);
      if (found == PCRE2_ERROR_NOMATCH) break;
      RONDO_CHECK(found >= 0 && bounds[1] > bounds[0]);
      if (bounds[0] > at) piece(text.substr(at, bounds[0] - at), false);
      piece(text.substr(bounds[0], bounds[1] - bounds[0]), true);
      at = bounds[1];
    }
    if (at < text.size()) piece(text.substr(at), false);
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
  }

 private:
  pcre2_code* code_;
};

PreTokenizer::PreTokenizer(PreTokenizerRule::Kind kind) : kind_(kind), words_(new Pattern(WordPattern(kind))) {
  if (kind == PreTokenizerRule::Kind::kDigits) digit_.reset(new Pattern(kDigitPattern));
}

PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::Split(std::string_view text, absl::FunctionRef<void(std::string_view)> word) const {
  const auto split_words = [&](std::string_view run) { words_->Walk(run, [&](std::string_view w, bool) { word(w); }); };
  if (kind_ != PreTokenizerRule::Kind::kDigits) return split_words(text);
  digit_->Walk(text, [&](std::string_view run, bool is_digit) {
    if (is_digit) {
      word(run);
    } else {
      split_words(run);
    }
  });
}

}  // namespace rondo
