// An array in a file, where it lies: what the readers of .npy and .safetensors give and the attend command sends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace rondo::cli {

enum class FileType : uint8_t { kF32, kF16, kBf16, kI32, kI64 };

constexpr int64_t ElementBytes(FileType type) {
  return type == FileType::kI64 ? 8 : type == FileType::kF32 || type == FileType::kI32 ? 4 : 2;
}
constexpr const char* Name(FileType type) {
  constexpr const char* kNames[] = {"float32", "float16", "bfloat16", "int32", "int64"};
  return kNames[static_cast<int>(type)];
}

// What a header says; row-major, little-endian, all checked against the file's size.
struct ArrayHeader {
  FileType type = FileType::kF32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // of the data, in the file
  uint64_t bytes = 0;
};

// "[128, 9, 64]"
std::string ShowShape(const std::vector<int64_t>& shape);

// shape's product times the element size. False where that does not fit 63 bits.
bool ArrayBytes(const std::vector<int64_t>& shape, FileType type, uint64_t* bytes);

}  // namespace rondo::cli
