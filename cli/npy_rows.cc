#include "cli/npy_rows.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"

namespace rondo::cli {
namespace {

// Format version 1.0, padded to a multiple of 64 as NumPy does.
std::string Header(const std::vector<int64_t>& shape) {
  const std::string text = absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (",
                                        absl::StrJoin(shape, ", "), shape.size() == 1 ? "," : "", "), }");
  const size_t bytes = (10 + text.size() + 1 + 63) / 64 * 64;
  std::string header("\x93NUMPY\x01\x00", 8);
  header.push_back(static_cast<char>((bytes - 10) & 255));
  header.push_back(static_cast<char>((bytes - 10) >> 8));
  header += text;
  header.resize(bytes - 1, ' ');
  header.push_back('\n');
  return header;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NpyRows>> NpyRows::Create(const std::string& path, const std::vector<int64_t>& shape) {
  absl::StatusOr<std::unique_ptr<PartFile>> part = PartFile::Create(path);
  if (!part.ok()) return part.status();
  std::unique_ptr<NpyRows> file(new NpyRows);
  file->file_ = *std::move(part);
  const int fd = file->file_->fd();
  const std::string header = Header(shape);
  uint64_t row_bytes = sizeof(float);
  for (size_t d = 1; d < shape.size(); ++d) row_bytes *= shape[d];
  file->rows_ = {fd, header.size(), row_bytes};
  file->bytes_ = row_bytes * shape[0];
  if (pwrite(fd, header.data(), header.size(), 0) != static_cast<ssize_t>(header.size()))
    return file->file_->Error("write");
  // Not every file system can; then a full disk is found when the rows are written.
  const int full = posix_fallocate(fd, 0, static_cast<off_t>(header.size() + file->bytes_));
  if (full == ENOSPC || full == EFBIG) {
    errno = full;
    return file->file_->Error(absl::StrCat("make room for ", file->bytes_, " bytes in"));
  }
  return file;
}

absl::StatusOr<std::string> NpyRows::Digest() const {
  Sha256 digest;
  std::vector<char> buffer(1 << 20);
  for (uint64_t at = 0; at < bytes_;) {
    const size_t want = std::min<uint64_t>(buffer.size(), bytes_ - at);
    const ssize_t got = pread(rows_.fd, buffer.data(), want, static_cast<off_t>(rows_.begin + at));
    if (got <= 0) return file_->Error("read back");
    digest.Update(buffer.data(), got);
    at += got;
  }
  return digest.HexDigest();
}

absl::StatusOr<std::vector<float>> NpyRows::ReadRow(int64_t row) const {
  std::vector<float> values(rows_.row_bytes / sizeof(float));
  const off_t at = static_cast<off_t>(rows_.begin + row * rows_.row_bytes);
  if (pread(rows_.fd, values.data(), rows_.row_bytes, at) != static_cast<ssize_t>(rows_.row_bytes)) {
    return file_->Error("read back");
  }
  return values;
}

}  // namespace rondo::cli
