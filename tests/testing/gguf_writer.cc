#include "tests/testing/gguf_writer.h"

#include <fstream>

#include "absl/strings/str_cat.h"

namespace rondo {

std::string GgufString(std::string_view text) { return LittleEndian<uint64_t>(text.size()) + std::string(text); }

std::string ByteLetter(uint8_t byte) {
  // GPT-2's rule: printable bytes stand for themselves, the others are numbered from U+0100 in byte order.
  const auto printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
}

GgufWriter& GgufWriter::Key(std::string_view key, uint32_t type) {
  kv_ += GgufString(key) + LittleEndian(type);
  ++n_kv_;
  return *this;
}

GgufWriter& GgufWriter::Raw(std::string_view key, uint32_t type, std::string_view bytes) {
  Key(key, type);
  kv_ += bytes;
  return *this;
}

GgufWriter& GgufWriter::String(std::string_view key, std::string_view value) { return Raw(key, 8, GgufString(value)); }
GgufWriter& GgufWriter::U32(std::string_view key, uint32_t value) { return Raw(key, 4, LittleEndian(value)); }
GgufWriter& GgufWriter::F32(std::string_view key, float value) { return Raw(key, 6, LittleEndian(value)); }
GgufWriter& GgufWriter::Bool(std::string_view key, bool value) { return Raw(key, 7, std::string(1, value ? 1 : 0)); }

GgufWriter& GgufWriter::Strings(std::string_view key, const std::vector<std::string>& values) {
  Key(key, 9);
  kv_ += LittleEndian<uint32_t>(8) + LittleEndian<uint64_t>(values.size());
  for (const std::string& value : values) kv_ += GgufString(value);
  return *this;
}

GgufWriter& GgufWriter::I32s(std::string_view key, const std::vector<int32_t>& values) {
  Key(key, 9);
  kv_ += LittleEndian<uint32_t>(5) + LittleEndian<uint64_t>(values.size());
  for (const int32_t value : values) kv_ += LittleEndian(value);
  return *this;
}

GgufWriter& GgufWriter::F32s(std::string_view key, const std::vector<float>& values) {
  Key(key, 9);
  kv_ += LittleEndian<uint32_t>(6) + LittleEndian<uint64_t>(values.size());
  for (const float value : values) kv_ += LittleEndian(value);
  return *this;
}

GgufWriter& GgufWriter::Alignment(uint32_t alignment) {
  alignment_ = alignment;
  return U32("general.alignment", alignment);
}

GgufWriter& GgufWriter::RawTensorInfo(std::string_view name, uint32_t n_dims, std::vector<uint64_t> dims, uint32_t type,
                                      uint64_t offset) {
  infos_ += GgufString(name) + LittleEndian(n_dims);
  for (const uint64_t dim : dims) infos_ += LittleEndian(dim);
  infos_ += LittleEndian(type) + LittleEndian(offset);
  ++n_tensors_;
  return *this;
}

GgufWriter& GgufWriter::Tensor(std::string_view name, std::vector<uint64_t> dims, WeightType type, std::string bytes) {
  const auto n_dims = static_cast<uint32_t>(dims.size());
  RawTensorInfo(name, n_dims, std::move(dims), static_cast<uint32_t>(type), data_.size());
  data_ += bytes;
  data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
  return *this;
}

GgufWriter& GgufWriter::F32Tensor(std::string_view name, std::vector<uint64_t> dims, const std::vector<float>& values) {
  return Tensor(name, std::move(dims), WeightType::kF32,
                std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
}

GgufWriter& GgufWriter::ByteVocabulary(const std::vector<std::string>& merges,
                                       const std::vector<std::string>& control) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(ByteLetter(static_cast<uint8_t>(byte)));
  for (std::string merge : merges) tokens.push_back(merge.erase(merge.find(' '), 1));
  std::vector<int32_t> types(tokens.size(), 1);
  for (const std::string& text : control) {
    tokens.push_back(text);
    types.push_back(3);
  }
  return String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", "gpt-2")
      .Strings("tokenizer.ggml.tokens", tokens)
      .I32s("tokenizer.ggml.token_type", types)
      .Strings("tokenizer.ggml.merges", merges);
}

std::string GgufWriter::Header() const {
  return "GGUF" + LittleEndian<uint32_t>(3) + LittleEndian(n_tensors_) + LittleEndian(n_kv_) + kv_ + infos_;
}

std::string GgufWriter::Build() const {
  std::string file = Header();
  file.resize((file.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
  return file + data_;
}

absl::Status GgufWriter::WriteTo(const std::string& path) const {
  std::ofstream out(path, std::ios::binary);
  out << Build();
  if (!out.flush()) return absl::InternalError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

}  // namespace rondo
