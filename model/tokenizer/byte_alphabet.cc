#include "model/tokenizer/byte_alphabet.h"

#include <array>

#include "model/tokenizer/utf8.h"

namespace rondo {
namespace {

constexpr int kLetters = 256 + 68;  // code points below this may be letters; 68 bytes are not printable

struct Alphabet {
  std::array<std::string, 256> letter;
  std::array<int, kLetters> byte;  // -1: no letter

  Alphabet() {
    byte.fill(-1);
    int next = 256;  // bytes that are not printable take the code points from U+0100, in order
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const int code = printable ? b : next++;
      byte[static_cast<size_t>(code)] = b;
      letter[static_cast<size_t>(b)] =
          code < 0x80 ? std::string(1, static_cast<char>(code))
                      : std::string{static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
    }
  }
};

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

}  // namespace

std::string_view LetterOfByte(uint8_t byte) { return TheAlphabet().letter[byte]; }

std::string BytesOfLetters(std::string_view letters) {
  const Alphabet& alphabet = TheAlphabet();
  std::string bytes;
  while (!letters.empty()) {
    const size_t length = NextUtf8(letters).bytes;
    int code = static_cast<uint8_t>(letters[0]);
    if (length == 2) code = (code & 0x1F) << 6 | (static_cast<uint8_t>(letters[1]) & 0x3F);
    const bool known = length <= 2 && code < kLetters && alphabet.byte[static_cast<size_t>(code)] >= 0;
    if (known) {
      bytes += static_cast<char>(alphabet.byte[static_cast<size_t>(code)]);
    } else {
      bytes += letters.substr(0, length);
    }
    letters.remove_prefix(length);
  }
  return bytes;
}

}  // namespace rondo
