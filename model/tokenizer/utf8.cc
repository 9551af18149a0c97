#include "model/tokenizer/utf8.h"

#include <cstdint>

namespace rondo {

Utf8Step NextUtf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Kind::kCharacter, 1};
  const size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                        : lead >= 0xE0 && lead <= 0xEF ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0) return {Utf8Kind::kInvalid, 1};
  // The second byte's range shuts out overlong forms (E0, F0), surrogates (ED) and code points above U+10FFFF (F4).
  uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Kind::kIncomplete, i};
    if (byte(i) < least || byte(i) > most) return {Utf8Kind::kInvalid, i};
    least = 0x80;
    most = 0xBF;
  }
  return {Utf8Kind::kCharacter, length};
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = NextUtf8(text.substr(at));
    if (step.kind != Utf8Kind::kCharacter) break;
    at += step.bytes;
  }
  return at;
}

void AppendAsUtf8(std::string_view text, std::string* out) {
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    *out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) return;
    *out += "\xEF\xBF\xBD";
    text.remove_prefix(NextUtf8(text).bytes);
  }
}

}  // namespace rondo
