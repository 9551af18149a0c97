// The temporary folder of one `rondo up`: removed at its end, and by the next `rondo up` if that end was a SIGKILL.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace rondo::cli {

class ScratchFolder {
 public:
  // A new folder rondo-up-XXXXXX in `parent`. Removes those there whose owner is gone: a lock that its owner holds for
  // life, and the kernel lets go of, tells them from those in use (a process id would not, across containers).
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> Make(const std::string& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  ScratchFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;
};

}  // namespace rondo::cli
