// Reads the header of a GGUF file into a GgufFile, trusting nothing: every length is checked against the bytes that
// remain before it is used. Only gguf_file.cc uses it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "model/gguf/gguf_file.h"

namespace rondo {

class GgufParser {
 public:
  // Parses file->bytes_ into *file, whose name and has_data are set.
  explicit GgufParser(GgufFile* file) : file_(file) {}
  absl::Status Parse();

 private:
  absl::Status ParseCounts();
  absl::Status ParseKeyValue(uint64_t index);
  absl::Status ParseValue(std::string_view key, GgufValue* value);
  absl::Status SkipElements(std::string_view key, GgufType type, uint64_t count);
  absl::Status ParseAlignment();
  absl::Status ParseTensor(uint64_t index);
  absl::Status CheckPlacement();

  template <typename T>
  absl::Status Read(std::string_view what, T* value);
  absl::Status ReadString(std::string_view what, std::string_view* text);
  size_t remaining() const { return file_->bytes_.size() - position_; }

  template <typename... Parts>
  absl::Status Bad(const Parts&... parts) const {
    return absl::InvalidArgumentError(absl::StrCat(file_->name_, ": ", StrCatPart(parts)...));
  }

  GgufFile* file_;
  size_t position_ = 0;
  uint64_t n_tensors_ = 0;
  uint64_t n_kv_ = 0;
  uint32_t alignment_ = 32;
};

}  // namespace rondo
