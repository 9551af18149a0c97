#include "model/gguf/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "model/gguf/ggml_type_name.h"

namespace rondo {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is little-endian and is read in place");

// An entry cannot be smaller: key of one letter, type, one byte of value; name of one letter, counts, one dim, type,
// offset.
constexpr uint64_t kMinKeyValueBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;
constexpr size_t kMaxKeyBytes = 65535;       // GGUF specification
constexpr size_t kMaxTensorNameBytes = 63;   // ggml keeps names in 64 bytes with the closing NUL
constexpr uint32_t kMaxDims = 4;             // ggml
constexpr uint32_t kMinAlignment = 8;        // so that float rows are aligned
constexpr uint32_t kMaxAlignment = 1 << 16;  // a larger one would make a small file claim gigabytes of padding

size_t ElementBytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
    case GgufType::kString:  // at least its length
      return 8;
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

bool KnownType(uint32_t type) { return type <= static_cast<uint32_t>(GgufType::kF64); }

}  // namespace

template <typename T>
absl::Status GgufParser::Read(std::string_view what, T* value) {
  if (remaining() < sizeof(T)) {
    return Bad("the file ends inside ", what, ": ", sizeof(T), " bytes wanted at offset ", position_, ", ", remaining(),
               " left");
  }
  std::memcpy(value, file_->bytes_.data() + position_, sizeof(T));
  position_ += sizeof(T);
  return absl::OkStatus();
}

absl::Status GgufParser::ReadString(std::string_view what, std::string_view* text) {
  uint64_t length = 0;
  if (absl::Status status = Read(what, &length); !status.ok()) return status;
  if (length > remaining()) {
    return Bad("the length of ", what, " is ", length, " bytes, but ", remaining(), " are left in the file");
  }
  *text = {reinterpret_cast<const char*>(file_->bytes_.data()) + position_, static_cast<size_t>(length)};
  position_ += length;
  return absl::OkStatus();
}

absl::Status GgufParser::Parse() {
  if (absl::Status status = ParseCounts(); !status.ok()) return status;
  for (uint64_t i = 0; i < n_kv_; ++i) {
    if (absl::Status status = ParseKeyValue(i); !status.ok()) return status;
  }
  if (absl::Status status = ParseAlignment(); !status.ok()) return status;
  for (uint64_t i = 0; i < n_tensors_; ++i) {
    if (absl::Status status = ParseTensor(i); !status.ok()) return status;
  }
  file_->header_size_ = position_;
  return CheckPlacement();
}

absl::Status GgufParser::ParseCounts() {
  char magic[4];
  uint32_t version = 0;
  if (absl::Status status = Read("the magic", &magic); !status.ok()) return status;
  if (std::memcmp(magic, "GGUF", 4) != 0) return Bad("not a GGUF file (its first four bytes are not \"GGUF\")");
  if (absl::Status status = Read("the version", &version); !status.ok()) return status;
  if (version != 0 && (version & 0xFFFF) == 0) return Bad("a big-endian GGUF file; only little-endian files are read");
  if (version != 2 && version != 3) return Bad("GGUF version ", version, "; versions 2 and 3 are read");
  if (absl::Status status = Read("the number of tensors", &n_tensors_); !status.ok()) return status;
  if (absl::Status status = Read("the number of keys", &n_kv_); !status.ok()) return status;
  if (n_kv_ > remaining() / kMinKeyValueBytes) {
    return Bad("the file claims ", n_kv_, " keys; its ", remaining(), " remaining bytes can hold ",
               remaining() / kMinKeyValueBytes, " at most");
  }
  if (n_tensors_ > remaining() / kMinTensorBytes) {
    return Bad("the file claims ", n_tensors_, " tensors; its ", remaining(), " remaining bytes can hold ",
               remaining() / kMinTensorBytes, " at most");
  }
  return absl::OkStatus();
}

absl::Status GgufParser::ParseKeyValue(uint64_t index) {
  std::string_view key;
  if (absl::Status status = ReadString(absl::StrCat("key ", index), &key); !status.ok()) return status;
  if (key.empty()) return Bad("key ", index, " is empty");
  if (key.size() > kMaxKeyBytes) {
    return Bad("the length of key ", index, " is ", key.size(), " bytes; the limit is ", kMaxKeyBytes);
  }
  for (const char letter : key) {
    if (letter < 0x20 || letter > 0x7E) return Bad("key ", index, " is not printable ASCII");
  }
  GgufValue value;
  if (absl::Status status = ParseValue(key, &value); !status.ok()) return status;
  if (!file_->values_.emplace(key, value).second) return Bad("key ", key, " appears twice");
  file_->keys_.push_back(key);
  return absl::OkStatus();
}

absl::Status GgufParser::ParseValue(std::string_view key, GgufValue* value) {
  uint32_t type = 0;
  if (absl::Status status = Read(absl::StrCat("key ", Sv(key)), &type); !status.ok()) return status;
  if (!KnownType(type)) return Bad("key ", key, " has unknown value type ", type, " (0 to 12 are known)");
  value->type = static_cast<GgufType>(type);
  value->element = value->type;
  if (value->type == GgufType::kArray) {
    uint32_t element = 0;
    if (absl::Status status = Read(absl::StrCat("key ", Sv(key)), &element); !status.ok()) return status;
    if (!KnownType(element)) return Bad("key ", key, " has unknown array element type ", element);
    value->element = static_cast<GgufType>(element);
    if (value->element == GgufType::kArray) return Bad("key ", key, " is an array of arrays, which is not supported");
    if (absl::Status status = Read(absl::StrCat("key ", Sv(key)), &value->count); !status.ok()) return status;
  }
  const size_t begin = position_;
  if (absl::Status status = SkipElements(key, value->element, value->count); !status.ok()) return status;
  value->bytes = file_->bytes_.subspan(begin, position_ - begin);
  return absl::OkStatus();
}

absl::Status GgufParser::SkipElements(std::string_view key, GgufType type, uint64_t count) {
  const size_t bytes = ElementBytes(type);
  if (count > remaining() / bytes) {
    return Bad("key ", key, " claims ", count, " values of type ", GgufTypeName(type), "; the ", remaining(),
               " remaining bytes can hold ", remaining() / bytes, " at most");
  }
  if (type == GgufType::kString) {
    const std::string what = absl::StrCat("a text of key ", Sv(key));
    std::string_view text;
    for (uint64_t i = 0; i < count; ++i) {
      if (absl::Status status = ReadString(what, &text); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  if (type == GgufType::kBool) {
    for (const std::byte flag : file_->bytes_.subspan(position_, count)) {
      if (static_cast<uint8_t>(flag) > 1) {
        return Bad("key ", key, " holds the truth value ", static_cast<int>(flag), "; only 0 and 1 are valid");
      }
    }
  }
  position_ += count * bytes;
  return absl::OkStatus();
}

absl::Status GgufParser::ParseAlignment() {
  const absl::StatusOr<std::optional<uint32_t>> alignment = file_->FindU32("general.alignment");
  if (!alignment.ok()) return alignment.status();
  alignment_ = alignment->value_or(alignment_);
  if (!std::has_single_bit(alignment_) || alignment_ < kMinAlignment || alignment_ > kMaxAlignment) {
    return Bad("general.alignment is ", alignment_, "; it must be a power of two from ", kMinAlignment, " to ",
               kMaxAlignment);
  }
  return absl::OkStatus();
}

absl::Status GgufParser::ParseTensor(uint64_t index) {
  GgufTensor tensor;
  const std::string what = absl::StrCat("tensor entry ", index);
  if (absl::Status status = ReadString(what, &tensor.name); !status.ok()) return status;
  if (tensor.name.empty()) return Bad("tensor ", index, " has no name");
  if (tensor.name.size() > kMaxTensorNameBytes) {
    return Bad("the name of tensor ", index, " has ", tensor.name.size(), " bytes; the limit is ", kMaxTensorNameBytes);
  }
  uint32_t dims = 0;
  if (absl::Status status = Read(what, &dims); !status.ok()) return status;
  if (dims < 1 || dims > kMaxDims) return Bad("tensor ", tensor.name, " has ", dims, " dimensions; 1 to 4 are read");
  tensor.dims = static_cast<int>(dims);
  uint64_t elements = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    uint64_t dim = 0;
    if (absl::Status status = Read(what, &dim); !status.ok()) return status;
    if (dim == 0) return Bad("dimension ", i, " of tensor ", tensor.name, " is 0");
    // Tested before it is formed. 2^62 elements leave room for the bytes to be computed in 64 bits.
    if (dim > (uint64_t{1} << 62) / elements) {
      return Bad("tensor ", tensor.name, " has more than 2^62 elements (dimension ", i, " is ", dim, ")");
    }
    elements *= dim;
    tensor.dim[i] = static_cast<int64_t>(dim);
  }
  uint32_t type = 0;
  if (absl::Status status = Read(what, &type); !status.ok()) return status;
  if (absl::Status status = Read(what, &tensor.offset); !status.ok()) return status;
  tensor.type = static_cast<WeightType>(type);
  const WeightTypeInfo* info = FindWeightType(tensor.type);
  if (info == nullptr) {
    const std::string_view known = GgmlTypeName(type);
    if (known.empty()) return Bad("tensor ", tensor.name, " has unknown type ", type);
    return absl::UnimplementedError(
        absl::StrCat(file_->name_, ": tensor ", Sv(tensor.name), " has type ", Sv(known), " (", type,
                     "); F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K are read"));
  }
  if (tensor.dim[0] % info->block_elements != 0) {
    return Bad("a row of tensor ", tensor.name, " has ", tensor.dim[0], " elements, no multiple of the ",
               info->block_elements, " in a block of its type ", info->name);
  }
  const uint64_t blocks = elements / static_cast<uint64_t>(info->block_elements);
  if (blocks > std::numeric_limits<uint64_t>::max() / static_cast<uint64_t>(info->block_bytes)) {
    return Bad("tensor ", tensor.name, " of shape ", ShapeText(tensor), " has more bytes than 64 bits can count");
  }
  tensor.bytes = blocks * static_cast<uint64_t>(info->block_bytes);
  if (!file_->tensor_index_.emplace(tensor.name, file_->tensors_.size()).second) {
    return Bad("tensor ", tensor.name, " appears twice");
  }
  file_->tensors_.push_back(tensor);
  return absl::OkStatus();
}

absl::Status GgufParser::CheckPlacement() {
  const uint64_t data_begin = (uint64_t{position_} + alignment_ - 1) / alignment_ * alignment_;
  const uint64_t size = file_->bytes_.size();
  const uint64_t data_bytes = size > data_begin ? size - data_begin : 0;
  std::vector<const GgufTensor*> by_offset;
  for (GgufTensor& tensor : file_->tensors_) {
    if (tensor.offset % alignment_ != 0) {
      return Bad("the data of tensor ", tensor.name, " starts at offset ", tensor.offset,
                 ", no multiple of the file's alignment ", alignment_);
    }
    if (tensor.bytes > std::numeric_limits<uint64_t>::max() - tensor.offset) {
      return Bad("the data of tensor ", tensor.name, " (offset ", tensor.offset, ", ", tensor.bytes,
                 " bytes) ends past what 64 bits can count");
    }
    if (file_->has_data_) {
      if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
        return Bad("the data of tensor ", tensor.name, " (offset ", tensor.offset, ", ", tensor.bytes,
                   " bytes) ends past the file's ", data_bytes, " bytes of tensor data: is the file cut short?");
      }
      tensor.data = file_->bytes_.data() + data_begin + tensor.offset;
    }
    by_offset.push_back(&tensor);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const GgufTensor& before = *by_offset[i - 1];
    const GgufTensor& after = *by_offset[i];
    if (before.offset + before.bytes > after.offset) {
      return Bad("the data of tensors ", before.name, " (offset ", before.offset, ", ", before.bytes, " bytes) and ",
                 after.name, " (offset ", after.offset, ") overlap");
    }
  }
  return absl::OkStatus();
}

}  // namespace rondo
