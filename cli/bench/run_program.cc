#include "cli/bench/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rondo::cli {
namespace {

constexpr size_t kKeptErr = 64 << 10;

struct Pipe {
  int ends[2] = {-1, -1};
  bool Open() { return pipe2(ends, O_CLOEXEC) == 0; }
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
  void CloseWriting() {
    close(ends[1]);
    ends[1] = -1;
  }
};

// Between fork and exec only calls that are safe there.
[[noreturn]] void Exec(char* const* argv, pid_t parent, int out, int err, int report) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  signal(SIGPIPE, SIG_DFL);
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && (out < 0 || dup2(out, STDOUT_FILENO) >= 0) &&
      (err < 0 || dup2(err, STDERR_FILENO) >= 0)) {
    execvp(argv[0], argv);
  }
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = write(report, &reason, sizeof(reason));
  _exit(127);
}

absl::StatusOr<pid_t> Start(const std::vector<std::string>& argv, int out, int err) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  Pipe report;
  if (!report.Open()) return absl::UnavailableError(absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Exec(words.data(), parent, out, err, report.ends[1]);
  int reason = errno;
  report.CloseWriting();
  if (pid >= 0 && read(report.ends[0], &reason, sizeof(reason)) != sizeof(reason)) return pid;
  if (pid > 0) waitpid(pid, nullptr, 0);
  return absl::UnavailableError(absl::StrCat("cannot run ", argv[0], ": ", std::strerror(reason)));
}

int WaitFor(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// False at the end of the file.
bool ReadSome(int fd, std::string* to) {
  char buffer[16384];
  const ssize_t got = read(fd, buffer, sizeof(buffer));
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  to->append(buffer, static_cast<size_t>(got));
  return got > 0;
}

}  // namespace

absl::StatusOr<ProgramOutput> RunProgram(const std::vector<std::string>& argv) {
  Pipe out, err;
  if (!out.Open() || !err.Open()) return absl::UnavailableError("cannot make a pipe");
  const absl::StatusOr<pid_t> pid = Start(argv, out.ends[1], err.ends[1]);
  if (!pid.ok()) return pid.status();
  out.CloseWriting();
  err.CloseWriting();
  ProgramOutput result;
  pollfd fds[2] = {{out.ends[0], POLLIN, 0}, {err.ends[0], POLLIN, 0}};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
    if (fds[0].revents != 0 && !ReadSome(fds[0].fd, &result.out)) fds[0].fd = -1;
    if (fds[1].revents != 0 && !ReadSome(fds[1].fd, &result.err)) fds[1].fd = -1;
    for (pollfd& fd : fds) fd.revents = 0;
    if (result.err.size() > 2 * kKeptErr) result.err.erase(0, result.err.size() - kKeptErr);
  }
  result.exit_code = WaitFor(*pid);
  return result;
}

absl::StatusOr<int> RunProgramHere(const std::vector<std::string>& argv) {
  const absl::StatusOr<pid_t> pid = Start(argv, -1, -1);
  if (!pid.ok()) return pid.status();
  return WaitFor(*pid);
}

std::string LastWords(const std::string& err) {
  std::string last;
  for (absl::string_view line : absl::StrSplit(err, '\n')) {
    if (line.find_first_not_of("- \t\r") == absl::string_view::npos) continue;
    if (line.substr(0, 11) == "scale_rank:") return std::string(line);
    last = std::string(line);
  }
  return last;
}

}  // namespace rondo::cli
