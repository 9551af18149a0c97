// The letters that byte-level BPE vocabularies write for bytes: GPT-2's table of 256 printable characters. Used to read
// token texts and merges out of a model file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo {

// The letter of a byte, as UTF-8 of one or two bytes.
std::string_view LetterOfByte(uint8_t byte);

// A token's text as the bytes it stands for. Characters outside the alphabet, which a token added by hand may have,
// stay as they are.
std::string BytesOfLetters(std::string_view letters);

}  // namespace rondo
