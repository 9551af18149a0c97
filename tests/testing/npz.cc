#include "tests/testing/npz.h"

#include <zlib.h>

#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "tests/testing/test_data.h"

namespace rondo {
namespace {

template <typename T>
T Load(std::string_view bytes, size_t at) {
  T value{};
  if (at <= bytes.size() && sizeof(T) <= bytes.size() - at) std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// Raw deflate, as zip keeps it.
bool Inflate(std::string_view packed, std::string* out) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out->data());
  stream.avail_out = static_cast<uInt>(out->size());
  const bool whole = inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  return whole;
}

template <typename T>
void Convert(std::string_view bytes, std::vector<double>* values) {
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    values->push_back(static_cast<double>(Load<T>(bytes, i)));
  }
}

// The text after 'KEY': in the header's Python dictionary.
std::string_view Field(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  return at == std::string_view::npos ? std::string_view() : header.substr(at + key.size());
}

// NPY version 1: magic, version, u16 header length, the dictionary, the data.
bool ParseNpy(std::string_view bytes, NpyArray* array) {
  if (bytes.substr(0, 8) != std::string_view("\x93NUMPY\x01\x00", 8)) return false;
  const size_t header_size = Load<uint16_t>(bytes, 8);
  if (header_size > bytes.size() - 10) return false;
  const std::string_view header = bytes.substr(10, header_size), data = bytes.substr(10 + header_size);
  if (Field(header, "'fortran_order': ").substr(0, 5) != "False") return false;
  std::string_view shape = Field(header, "'shape': (");
  shape = shape.substr(0, shape.find(')'));
  int64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < '0' || shape[i] > '9') continue;
    int64_t dim = 0;
    for (; i < shape.size() && shape[i] >= '0' && shape[i] <= '9'; ++i) dim = dim * 10 + (shape[i] - '0');
    array->shape.push_back(dim);
    elements *= dim;
  }
  const std::string_view type = Field(header, "'descr': '<").substr(0, 2);
  if (type == "i4") Convert<int32_t>(data, &array->values);
  if (type == "i8") Convert<int64_t>(data, &array->values);
  if (type == "f4") Convert<float>(data, &array->values);
  if (type == "f8") Convert<double>(data, &array->values);
  return static_cast<int64_t>(array->values.size()) == elements;
}

}  // namespace

// The sizes come from the central directory: local headers may leave them to a zip64 field.
absl::StatusOr<std::map<std::string, NpyArray>> ReadNpz(const std::string& path) {
  const absl::StatusOr<std::string> file = ReadWholeFile(path);
  if (!file.ok()) return file.status();
  const auto bad = [&](const char* what) { return absl::InvalidArgumentError(absl::StrCat(path, ": ", what)); };
  const std::string_view bytes = *file;
  const size_t end = bytes.rfind("PK\5\6");
  if (end == std::string_view::npos) return bad("no zip archive");
  std::map<std::string, NpyArray> arrays;
  size_t at = Load<uint32_t>(bytes, end + 16);
  for (int left = Load<uint16_t>(bytes, end + 10); left > 0; --left) {
    if (Load<uint32_t>(bytes, at) != 0x02014b50) return bad("a broken zip directory");
    const int method = Load<uint16_t>(bytes, at + 10);
    const size_t packed_size = Load<uint32_t>(bytes, at + 20), size = Load<uint32_t>(bytes, at + 24);
    const size_t name_size = Load<uint16_t>(bytes, at + 28);
    const size_t local = Load<uint32_t>(bytes, at + 42);
    const size_t data = local + 30 + Load<uint16_t>(bytes, local + 26) + Load<uint16_t>(bytes, local + 28);
    if (data > bytes.size() || packed_size > bytes.size() - data || size > (size_t{1} << 30)) return bad("cut short");
    std::string name(bytes.substr(at + 46, name_size));
    std::string content(bytes.substr(data, packed_size));
    if (method == 8) {
      std::string inflated(size, '\0');
      if (!Inflate(content, &inflated)) return bad("a member that does not inflate");
      content = std::move(inflated);
    }
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    if (!ParseNpy(content, &arrays[name])) return bad("a member that is no supported .npy array");
    at += 46 + name_size + Load<uint16_t>(bytes, at + 30) + Load<uint16_t>(bytes, at + 32);
  }
  return arrays;
}

}  // namespace rondo
