#include "cli/npy_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace rondo::cli {
namespace {

// Format version 1.0: magic, version, length of the text that follows (little-endian), text padded with blanks to 128
// bytes in all and ended by a newline. https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
constexpr size_t kHeaderBytes = 128;

std::string Header(uint64_t rows, uint64_t columns) {
  std::string header("\x93NUMPY\x01\x00", 8);
  header.push_back(static_cast<char>(kHeaderBytes - 10));
  header.push_back('\0');
  absl::StrAppend(&header, "{'descr': '<f4', 'fortran_order': False, 'shape': (", rows, ", ", columns, "), }");
  header.resize(kHeaderBytes - 1, ' ');
  header.push_back('\n');
  return header;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NpyWriter>> NpyWriter::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<PartFile>> part = PartFile::Create(path);
  if (!part.ok()) return part.status();
  // A descriptor of its own, so that each closes what it opened.
  const int fd = fcntl((*part)->fd(), F_DUPFD_CLOEXEC, 0);
  std::FILE* const file = fd < 0 ? nullptr : fdopen(fd, "wb");
  if (file == nullptr) {
    const absl::Status status = (*part)->Error("write");
    if (fd >= 0) close(fd);
    return status;
  }
  std::unique_ptr<NpyWriter> writer(new NpyWriter(*std::move(part), file));
  const std::string blank(kHeaderBytes, '\0');
  if (std::fwrite(blank.data(), 1, blank.size(), file) != blank.size()) return writer->part_->Error("write");
  return writer;
}

NpyWriter::~NpyWriter() {
  if (file_ != nullptr) std::fclose(file_);
}

absl::Status NpyWriter::Append(uint64_t step, uint64_t offset, std::string_view bytes) {
  if (bytes.size() % sizeof(float) != 0) {
    return absl::DataLossError(
        absl::StrCat("logits of step ", step, ": ", bytes.size(), " bytes are not whole floats"));
  }
  if (step == step_ + 1 && offset == 0 && filled_ > 0) {
    if (row_length_ == 0) row_length_ = filled_;
    if (filled_ != row_length_) {
      return absl::DataLossError(
          absl::StrCat("logits of step ", step_, ": expected ", row_length_, " values, got ", filled_));
    }
    step_ = step;
    filled_ = 0;
  }
  if (step != step_ || offset != filled_) {
    return absl::DataLossError(absl::StrCat("logits out of order: expected step ", step_, " at ", filled_,
                                            ", got step ", step, " at ", offset));
  }
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) return part_->Error("write");
  filled_ += bytes.size() / sizeof(float);
  return absl::OkStatus();
}

absl::Status NpyWriter::Finish() {
  if (row_length_ == 0) row_length_ = filled_;
  if (filled_ != row_length_) {
    return absl::DataLossError(
        absl::StrCat("logits of step ", step_, ": expected ", row_length_, " values, got ", filled_));
  }
  const std::string header = Header(rows(), row_length_);
  const bool written = std::fseek(file_, 0, SEEK_SET) == 0 &&
                       std::fwrite(header.data(), 1, header.size(), file_) == header.size() && std::fflush(file_) == 0;
  if (!written) return part_->Error("write");
  if (std::fclose(std::exchange(file_, nullptr)) != 0) return part_->Error("finish");
  return part_->Finish();
}

uint64_t NpyWriter::rows() const { return filled_ == 0 ? step_ : step_ + 1; }

}  // namespace rondo::cli
