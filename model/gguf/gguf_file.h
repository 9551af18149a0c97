// A GGUF file (version 2 or 3) mapped read-only and checked whole: metadata with typed getters, and tensor entries that
// cannot point outside the file. Read by the model loader, the tokenizer and the coordinator (which gets the header
// alone).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rondo/dense_kernels.h"

namespace rondo {

// Value types, numbered as in the file.
enum class GgufType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };
std::string_view GgufTypeName(GgufType type);

// One metadata value, checked: its bytes lie inside the header.
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;   // of an array
  uint64_t count = 1;                 // elements of an array
  absl::Span<const std::byte> bytes;  // the value, or the array's elements; strings carry their u64 length
};

struct GgufTensor {
  std::string_view name;
  WeightType type = WeightType::kF32;
  int dims = 0;
  std::array<int64_t, 4> dim = {1, 1, 1, 1};  // dim[0] is the row length (fastest)
  uint64_t offset = 0;                        // from the start of the tensor data
  uint64_t bytes = 0;
  const std::byte* data = nullptr;  // in the mapping, aligned to the file's alignment (8 at least); null: header only
};
// "[576, 1536]", as the file writes it.
std::string ShapeText(const GgufTensor& tensor);

// Immutable after construction: any thread may read. Views and tensor data live as long as the object. The file must
// not be cut short while it is mapped (the kernel answers such a read with SIGBUS); replacing it by rename is safe.
class GgufFile {
 public:
  // Maps `path`. NOT_FOUND or PERMISSION_DENIED where it cannot be opened; INVALID_ARGUMENT for a file that breaks the
  // format, naming file, key or tensor, value and limit; UNIMPLEMENTED for a weight type that Rondo does not read.
  static absl::StatusOr<std::shared_ptr<const GgufFile>> Open(const std::string& path);
  // Parses what header_bytes() of another file gave; no tensor has data. `name` stands for the file in messages.
  static absl::StatusOr<std::shared_ptr<const GgufFile>> FromHeader(std::string header_bytes, std::string name);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::string& name() const { return name_; }      // the path, or the name given to FromHeader
  bool has_data() const { return has_data_; }            // false after FromHeader
  uint64_t file_bytes() const { return bytes_.size(); }  // of what was opened or given
  // Magic to the last tensor entry: all that comes before the tensor data and its padding.
  absl::Span<const std::byte> header_bytes() const { return bytes_.first(header_size_); }

  const GgufValue* Find(std::string_view key) const;  // null where absent
  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  const std::vector<std::string_view>& keys() const { return keys_; }  // in file order

  // Required values: NOT_FOUND naming the key where absent, INVALID_ARGUMENT where the type is another.
  absl::StatusOr<uint32_t> GetU32(std::string_view key) const;
  absl::StatusOr<float> GetF32(std::string_view key) const;
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::string_view> GetString(std::string_view key) const;
  absl::StatusOr<std::vector<std::string_view>> GetStrings(std::string_view key) const;
  absl::StatusOr<std::vector<int32_t>> GetI32s(std::string_view key) const;
  absl::StatusOr<std::vector<float>> GetF32s(std::string_view key) const;
  // Optional values: nothing where absent, INVALID_ARGUMENT where the type is another.
  absl::StatusOr<std::optional<uint32_t>> FindU32(std::string_view key) const;
  absl::StatusOr<std::optional<float>> FindF32(std::string_view key) const;
  absl::StatusOr<std::optional<bool>> FindBool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string_view>> FindString(std::string_view key) const;

  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in file order
  const GgufTensor* FindTensor(std::string_view name) const;           // null where absent

 private:
  friend class GgufParser;
  GgufFile() = default;

  std::string name_;
  std::string owned_;        // FromHeader
  void* mapping_ = nullptr;  // Open
  absl::Span<const std::byte> bytes_;
  bool has_data_ = false;
  size_t header_size_ = 0;
  std::vector<std::string_view> keys_;
  std::unordered_map<std::string_view, GgufValue> values_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
};

// Lower-case hex SHA-256 of a whole file, read in pieces (about half a second for each GB).
absl::StatusOr<std::string> FileSha256(const std::string& path);

}  // namespace rondo
