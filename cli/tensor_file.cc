#include "cli/tensor_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/npy_header.h"
#include "cli/safetensors_header.h"

namespace rondo::cli {
namespace {

constexpr char kSafetensors[] = ".safetensors";

}  // namespace

TensorFile::~TensorFile() {
  if (map_ != nullptr) munmap(const_cast<uint8_t*>(map_), map_bytes_);
}

absl::StatusOr<std::shared_ptr<const TensorFile>> TensorFile::Open(const std::string& source) {
  std::string path = source, name;
  const size_t colon = source.rfind(absl::StrCat(kSafetensors, ":"));
  const bool safetensors = colon != std::string::npos;
  if (safetensors) {
    path = source.substr(0, colon + sizeof(kSafetensors) - 1);
    name = source.substr(colon + sizeof(kSafetensors));
  } else if (absl::EndsWith(source, kSafetensors)) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": name the tensor: ", source, ":NAME"));
  }
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  if (fd < 0 || fstat(fd, &info) != 0) {
    const int reason = errno;
    if (fd >= 0) close(fd);
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(reason)));
  }
  absl::Cleanup close_file = [fd] { close(fd); };
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  std::shared_ptr<TensorFile> file(new TensorFile);
  file->source_ = source;
  file->map_bytes_ = static_cast<uint64_t>(info.st_size);
  if (file->map_bytes_ > 0) {
    void* p = mmap(nullptr, file->map_bytes_, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return absl::UnavailableError(absl::StrCat("cannot map ", path, ": ", std::strerror(errno)));
    file->map_ = static_cast<const uint8_t*>(p);
  }
  const absl::Span<const uint8_t> bytes(file->map_, file->map_bytes_);
  absl::StatusOr<ArrayHeader> header = safetensors ? ReadSafetensorsHeader(bytes, name) : ReadNpyHeader(bytes);
  if (!header.ok()) {
    return absl::Status(header.status().code(), absl::StrCat(path, ": ", header.status().message()));
  }
  file->header_ = *std::move(header);
  return std::shared_ptr<const TensorFile>(std::move(file));
}

}  // namespace rondo::cli
