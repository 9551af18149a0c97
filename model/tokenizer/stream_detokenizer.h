// Turns a stream of generated ids into text that may be shown: whole characters, never a piece of a stop string. Used
// by the coordinator, one for each answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace rondo {

// One thread at a time. The result does not depend on how the text was cut into tokens: of several stop strings the one
// that is complete first wins (the longest of those), and the text ends where it begins.
class StreamDetokenizer {
 public:
  // The tokenizer must outlive this. Empty stop strings are ignored.
  explicit StreamDetokenizer(const Tokenizer& tokenizer, std::vector<std::string> stops);

  // The text that may be shown after this token, always valid UTF-8, perhaps empty: what may still become a character
  // or a stop string is held back. Bytes that are no character are shown as U+FFFD. Empty after a stop string.
  std::string Push(int32_t id);

  // Whether a stop string was found.
  bool stopped() const { return stopped_; }

  // Ends the stream: the text held back, an unfinished character as U+FFFD. Empty after a stop string.
  std::string Flush();

 private:
  bool FindStop(size_t* begin) const;
  size_t StopTail() const;

  const Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace rondo
