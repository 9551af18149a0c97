// Steps through bytes that should be UTF-8: used by the tokenizer (invalid bytes are encoded one by one) and by the
// stream detokenizer (characters are shown whole).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rondo {

enum class Utf8Kind {
  kCharacter,   // one valid character
  kInvalid,     // bytes that no continuation makes valid
  kIncomplete,  // the text ends inside what may be a character
};

struct Utf8Step {
  Utf8Kind kind = Utf8Kind::kCharacter;
  size_t bytes = 0;  // of the character, or of the longest piece of it that is there (at least 1)
};

// What `text`, which is not empty, begins with. By the Unicode standard's table of well-formed sequences (3-7): no
// overlong forms, no surrogates, nothing above U+10FFFF.
Utf8Step NextUtf8(std::string_view text);

// The length of the longest prefix that is valid UTF-8.
size_t ValidUtf8Prefix(std::string_view text);

// Appends `text`, each invalid or incomplete piece as one U+FFFD (the standard's "maximal subpart" practice).
void AppendAsUtf8(std::string_view text, std::string* out);

}  // namespace rondo
