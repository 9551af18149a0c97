// A result on its way to disk: written beside its name and given the name when it is whole; what .npy results are
// written to.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rondo::cli {

// Whether a result can be written to `path`: nothing is there or a regular file (which the result replaces), and its
// folder takes new files. INVALID_ARGUMENT or PERMISSION_DENIED says what is there and what to do.
absl::Status CheckResultPath(const std::string& path);

// Whether both names lead to the same file, however they are spelled; neither need exist.
bool SameResultPath(const std::string& a, const std::string& b);

// Destroyed before Finish, it leaves nothing behind.
class PartFile {
 public:
  // Opens PATH.xxxxxxxx.part, a name that nobody else has, for reading and writing.
  static absl::StatusOr<std::unique_ptr<PartFile>> Create(const std::string& path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

  // Closes the file and gives it its name.
  absl::Status Finish();
  // UNAVAILABLE: "cannot `what` PATH: " and errno's text.
  absl::Status Error(const std::string& what) const;

 private:
  PartFile(std::string path, std::string part, int fd) : path_(std::move(path)), part_(std::move(part)), fd_(fd) {}

  const std::string path_, part_;
  int fd_;
  bool finished_ = false;
};

}  // namespace rondo::cli
