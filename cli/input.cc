#include "cli/input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace rondo::cli {

absl::StatusOr<std::string> ReadInput(const std::string& path) {
  const bool standard = path == "-";
  const int fd = standard ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const std::string name = standard ? "standard input" : path;
  if (fd < 0) return absl::NotFoundError(absl::StrCat("cannot read ", name, ": ", std::strerror(errno)));
  absl::Cleanup close_file = [fd, standard] {
    if (!standard) close(fd);
  };
  std::string text;
  constexpr size_t kPiece = 1 << 16;
  for (;;) {
    const size_t size = text.size();
    text.resize(size + kPiece);
    const ssize_t n = read(fd, text.data() + size, kPiece);
    text.resize(size + (n > 0 ? static_cast<size_t>(n) : 0));
    if (n == 0) return text;
    if (n < 0 && errno != EINTR) {
      return absl::UnavailableError(absl::StrCat("cannot read ", name, ": ", std::strerror(errno)));
    }
  }
}

}  // namespace rondo::cli
