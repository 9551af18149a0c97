// A file's array, mapped: FILE.npy, or FILE.safetensors:NAME.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/tensor_view.h"

namespace rondo::cli {

// Holds the mapping; any thread may read. A file that shrinks meanwhile ends the process, as with every mapped file.
class TensorFile {
 public:
  // INVALID_ARGUMENT or NOT_FOUND, naming `source`.
  static absl::StatusOr<std::shared_ptr<const TensorFile>> Open(const std::string& source);
  ~TensorFile();
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  const std::string& source() const { return source_; }
  FileType type() const { return header_.type; }
  const std::vector<int64_t>& shape() const { return header_.shape; }
  const uint8_t* data() const { return map_ + header_.begin; }
  uint64_t bytes() const { return header_.bytes; }

 private:
  TensorFile() = default;

  std::string source_;
  const uint8_t* map_ = nullptr;
  uint64_t map_bytes_ = 0;
  ArrayHeader header_;
};

}  // namespace rondo::cli
