#include "cli/part_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace rondo::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 100;  // with 32 random bits even a second one means that something is wrong

std::string FolderOf(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

const char* AdviceFor(mode_t mode) {
  if (S_ISDIR(mode)) return "name a file in it";
  if (S_ISLNK(mode)) return "name the file that it leads to";
  return "a result is a whole file: name one, and copy it afterwards";
}

}  // namespace

absl::Status CheckResultPath(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the name is empty: name a file");
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0) {
    if (!S_ISREG(there.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is ", KindOf(there.st_mode), ": ", AdviceFor(there.st_mode)));
    }
  } else if (errno != ENOENT) {
    return absl::PermissionDeniedError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  } else if (path.back() == '/') {
    return absl::InvalidArgumentError(absl::StrCat(path, " is the name of a folder: name a file in it"));
  }
  const std::string folder = FolderOf(path);
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::PermissionDeniedError(absl::StrCat("cannot write ", path, ": folder ", folder, ": ",
                                                    std::strerror(errno), ": name a file in a folder that takes one"));
  }
  return absl::OkStatus();
}

bool SameResultPath(const std::string& a, const std::string& b) {
  std::error_code unknown;
  const auto plain = [&](const std::string& path) {
    return fs::weakly_canonical(FolderOf(path), unknown) / fs::path(path).filename();
  };
  return plain(a) == plain(b);
}

absl::StatusOr<std::unique_ptr<PartFile>> PartFile::Create(const std::string& path) {
  if (absl::Status status = CheckResultPath(path); !status.ok()) return status;
  for (int i = 0; i < kTries; ++i) {
    char random[4];
    if (getrandom(random, sizeof(random), 0) != static_cast<ssize_t>(sizeof(random))) continue;
    std::string part =
        absl::StrCat(path, ".", absl::BytesToHexString(absl::string_view(random, sizeof(random))), ".part");
    // Unlike mkstemp's, the file gets the permissions that the user's umask leaves.
    const int fd = open(part.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return std::unique_ptr<PartFile>(new PartFile(path, std::move(part), fd));
    if (errno != EEXIST) break;
  }
  return absl::PermissionDeniedError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

PartFile::~PartFile() {
  if (fd_ >= 0) close(fd_);
  if (!finished_) std::remove(part_.c_str());
}

absl::Status PartFile::Finish() {
  if (const int fd = std::exchange(fd_, -1); close(fd) != 0) return Error("finish");
  // Something may have taken the name in the meantime.
  if (absl::Status status = CheckResultPath(path_); !status.ok()) return status;
  if (std::rename(part_.c_str(), path_.c_str()) != 0) return Error("finish");
  finished_ = true;
  return absl::OkStatus();
}

absl::Status PartFile::Error(const std::string& what) const {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path_, ": ", std::strerror(errno)));
}

}  // namespace rondo::cli
