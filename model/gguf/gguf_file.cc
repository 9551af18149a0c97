#include "model/gguf/gguf_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/text.h"
#include "model/gguf/gguf_parser.h"

namespace rondo {
namespace {

template <typename T>
constexpr GgufType kTypeOf = GgufType::kArray;
template <>
constexpr GgufType kTypeOf<uint32_t> = GgufType::kU32;
template <>
constexpr GgufType kTypeOf<int32_t> = GgufType::kI32;
template <>
constexpr GgufType kTypeOf<float> = GgufType::kF32;
template <>
constexpr GgufType kTypeOf<bool> = GgufType::kBool;
template <>
constexpr GgufType kTypeOf<std::string_view> = GgufType::kString;

// The parser has checked that the value is whole.
template <typename T>
T TakeElement(const std::byte** at) {
  T value;
  std::memcpy(&value, *at, sizeof(T));
  *at += sizeof(T);
  return value;
}
template <>
bool TakeElement<bool>(const std::byte** at) {
  return *(*at)++ != std::byte{0};
}
template <>
std::string_view TakeElement<std::string_view>(const std::byte** at) {
  const auto length = TakeElement<uint64_t>(at);
  const std::string_view text(reinterpret_cast<const char*>(*at), length);
  *at += length;
  return text;
}

absl::Status Missing(const GgufFile& file, std::string_view key) {
  return absl::NotFoundError(absl::StrCat(file.name(), ": key ", Sv(key), " is missing"));
}

std::string TypeText(const GgufValue& value) {
  return absl::StrCat(value.type == GgufType::kArray ? "array of " : "", Sv(GgufTypeName(value.element)));
}

template <typename T>
absl::StatusOr<std::optional<T>> FindScalar(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.Find(key);
  if (value == nullptr) return std::optional<T>();
  if (value->type != kTypeOf<T>) {
    return absl::InvalidArgumentError(absl::StrCat(file.name(), ": key ", Sv(key), " has type ", TypeText(*value), "; ",
                                                   Sv(GgufTypeName(kTypeOf<T>)), " is expected"));
  }
  const std::byte* at = value->bytes.data();
  return std::optional<T>(TakeElement<T>(&at));
}

template <typename T>
absl::StatusOr<T> GetScalar(const GgufFile& file, std::string_view key) {
  absl::StatusOr<std::optional<T>> value = FindScalar<T>(file, key);
  if (!value.ok()) return value.status();
  if (!value->has_value()) return Missing(file, key);
  return **value;
}

template <typename T>
absl::StatusOr<std::vector<T>> GetArray(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.Find(key);
  if (value == nullptr) return Missing(file, key);
  if (value->type != GgufType::kArray || value->element != kTypeOf<T>) {
    return absl::InvalidArgumentError(absl::StrCat(file.name(), ": key ", Sv(key), " has type ", TypeText(*value),
                                                   "; an array of ", Sv(GgufTypeName(kTypeOf<T>)), " is expected"));
  }
  std::vector<T> elements;
  elements.reserve(value->count);
  const std::byte* at = value->bytes.data();
  for (uint64_t i = 0; i < value->count; ++i) elements.push_back(TakeElement<T>(&at));
  return elements;
}

absl::Status FileError(const std::string& path, int error) {
  const std::string text = absl::StrCat("cannot open ", path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  return absl::FailedPreconditionError(text);
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

std::string_view GgufTypeName(GgufType type) {
  constexpr std::string_view kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<uint32_t>(type)];
}

std::string ShapeText(const GgufTensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.dims; ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", tensor.dim[i]);
  return text + "]";
}

absl::StatusOr<std::shared_ptr<const GgufFile>> GgufFile::Open(const std::string& path) {
  const Descriptor file(path);
  if (file.fd() < 0) return FileError(path, errno);
  struct stat about;
  if (fstat(file.fd(), &about) != 0) return FileError(path, errno);
  if (!S_ISREG(about.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  if (about.st_size == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": the file is empty"));
  const auto size = static_cast<size_t>(about.st_size);
  void* mapping = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (mapping == MAP_FAILED) return FileError(path, errno);
  std::shared_ptr<GgufFile> gguf(new GgufFile());
  gguf->name_ = path;
  gguf->mapping_ = mapping;
  gguf->bytes_ = {static_cast<const std::byte*>(mapping), size};
  gguf->has_data_ = true;
  if (absl::Status status = GgufParser(gguf.get()).Parse(); !status.ok()) return status;
  return gguf;
}

absl::StatusOr<std::shared_ptr<const GgufFile>> GgufFile::FromHeader(std::string header_bytes, std::string name) {
  std::shared_ptr<GgufFile> gguf(new GgufFile());
  gguf->name_ = std::move(name);
  gguf->owned_ = std::move(header_bytes);
  gguf->bytes_ = {reinterpret_cast<const std::byte*>(gguf->owned_.data()), gguf->owned_.size()};
  if (absl::Status status = GgufParser(gguf.get()).Parse(); !status.ok()) return status;
  return gguf;
}

GgufFile::~GgufFile() {
  if (mapping_ != nullptr) munmap(mapping_, bytes_.size());
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

absl::StatusOr<uint32_t> GgufFile::GetU32(std::string_view key) const { return GetScalar<uint32_t>(*this, key); }
absl::StatusOr<float> GgufFile::GetF32(std::string_view key) const { return GetScalar<float>(*this, key); }
absl::StatusOr<bool> GgufFile::GetBool(std::string_view key) const { return GetScalar<bool>(*this, key); }
absl::StatusOr<std::string_view> GgufFile::GetString(std::string_view key) const {
  return GetScalar<std::string_view>(*this, key);
}
absl::StatusOr<std::vector<std::string_view>> GgufFile::GetStrings(std::string_view key) const {
  return GetArray<std::string_view>(*this, key);
}
absl::StatusOr<std::vector<int32_t>> GgufFile::GetI32s(std::string_view key) const {
  return GetArray<int32_t>(*this, key);
}
absl::StatusOr<std::vector<float>> GgufFile::GetF32s(std::string_view key) const { return GetArray<float>(*this, key); }
absl::StatusOr<std::optional<uint32_t>> GgufFile::FindU32(std::string_view key) const {
  return FindScalar<uint32_t>(*this, key);
}
absl::StatusOr<std::optional<float>> GgufFile::FindF32(std::string_view key) const {
  return FindScalar<float>(*this, key);
}
absl::StatusOr<std::optional<bool>> GgufFile::FindBool(std::string_view key) const {
  return FindScalar<bool>(*this, key);
}
absl::StatusOr<std::optional<std::string_view>> GgufFile::FindString(std::string_view key) const {
  return FindScalar<std::string_view>(*this, key);
}

absl::StatusOr<std::string> FileSha256(const std::string& path) {
  const Descriptor file(path);
  if (file.fd() < 0) return FileError(path, errno);
  Sha256 sha;
  std::vector<std::byte> piece(1 << 20);
  while (true) {
    const ssize_t got = read(file.fd(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, errno);
    if (got == 0) return sha.HexDigest();
    sha.Update(piece.data(), static_cast<size_t>(got));
  }
}

}  // namespace rondo
