// Small tokenizers for tests, made through a GGUF header as in life.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/tokenizer/tokenizer.h"
#include "tests/testing/gguf_writer.h"

namespace rondo {

inline absl::StatusOr<std::shared_ptr<const Tokenizer>> TokenizerOf(const GgufWriter& writer) {
  const absl::StatusOr<std::shared_ptr<const GgufFile>> file = GgufFile::FromHeader(writer.Header(), "test.gguf");
  if (!file.ok()) return file.status();
  return Tokenizer::FromGguf(**file);
}

// All tokens' bytes joined.
inline std::string Decode(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += tokenizer.TokenBytes(id);
  return text;
}

}  // namespace rondo
