// Writes small GGUF files for tests: metadata and tensors, right by default, and wrong where a test asks for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "rondo/dense_kernels.h"

namespace rondo {

class GgufWriter {
 public:
  GgufWriter& String(std::string_view key, std::string_view value);
  GgufWriter& U32(std::string_view key, uint32_t value);
  GgufWriter& F32(std::string_view key, float value);
  GgufWriter& Bool(std::string_view key, bool value);
  GgufWriter& Strings(std::string_view key, const std::vector<std::string>& values);
  GgufWriter& I32s(std::string_view key, const std::vector<int32_t>& values);
  GgufWriter& F32s(std::string_view key, const std::vector<float>& values);
  // Any value type number with any bytes after it.
  GgufWriter& Raw(std::string_view key, uint32_t type, std::string_view bytes);

  // `dims` fastest first (a matrix of `rows` output features over `cols` inputs is {cols, rows}).
  GgufWriter& Tensor(std::string_view name, std::vector<uint64_t> dims, WeightType type, std::string bytes);
  GgufWriter& F32Tensor(std::string_view name, std::vector<uint64_t> dims, const std::vector<float>& values);
  // A tensor entry as given, with no data of its own: for bad files.
  GgufWriter& RawTensorInfo(std::string_view name, uint32_t n_dims, std::vector<uint64_t> dims, uint32_t type,
                            uint64_t offset);
  // Also writes general.alignment. Call before adding tensors. Default 32, unwritten.
  GgufWriter& Alignment(uint32_t alignment);
  // The byte alphabet (ids 0 to 255, id = byte), then `more` control tokens (type 3) as texts, tokenizer model gpt2 and
  // pre-tokenizer gpt-2, with these merges ("a b", in the byte alphabet's letters; their results become tokens too).
  GgufWriter& ByteVocabulary(const std::vector<std::string>& merges, const std::vector<std::string>& control);

  // Header alone (magic to the last tensor entry), and the whole file.
  std::string Header() const;
  std::string Build() const;
  absl::Status WriteTo(const std::string& path) const;

 private:
  GgufWriter& Key(std::string_view key, uint32_t type);

  uint32_t alignment_ = 32;
  uint64_t n_kv_ = 0;
  uint64_t n_tensors_ = 0;
  std::string kv_;
  std::string infos_;
  std::string data_;
};

// Little-endian bytes of one value, and a GGUF string (u64 length, bytes).
template <typename T>
std::string LittleEndian(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}
std::string GgufString(std::string_view text);

// The letter (UTF-8) that byte-level BPE vocabularies write for a byte.
std::string ByteLetter(uint8_t byte);

}  // namespace rondo
