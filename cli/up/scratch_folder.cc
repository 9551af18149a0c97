#include "cli/up/scratch_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace rondo::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "rondo-up-";
constexpr char kLock[] = "/owner.lock";

// The locked lock file of a folder, or -1: somebody has it, or it is not there.
int TakeLock(const std::string& folder, int flags) {
  const int fd = open((folder + kLock).c_str(), O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd < 0) return -1;
  struct stat mine = {};
  struct stat named = {};
  // Whoever sweeps may have removed the file between opening and locking it.
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &mine) == 0 && stat((folder + kLock).c_str(), &named) == 0 &&
      mine.st_ino == named.st_ino) {
    return fd;
  }
  close(fd);
  return -1;
}

void Sweep(const std::string& parent) {
  std::error_code error;
  for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    if (!absl::StartsWith(at->path().filename().string(), kPrefix)) continue;
    const int lock = TakeLock(path, 0);
    if (lock < 0) continue;
    std::error_code ignored;
    fs::remove_all(path, ignored);
    close(lock);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchFolder>> ScratchFolder::Make(const std::string& parent) {
  Sweep(parent);
  for (int attempt = 0;; ++attempt) {
    std::string path = absl::StrCat(parent, "/", kPrefix, "XXXXXX");
    if (mkdtemp(path.data()) == nullptr) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", path));
    }
    const int lock = TakeLock(path, O_CREAT);
    if (lock >= 0) return std::unique_ptr<ScratchFolder>(new ScratchFolder(std::move(path), lock));
    if (attempt == 10) return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", path, kLock));
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace rondo::cli
