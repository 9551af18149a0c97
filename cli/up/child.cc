#include "cli/up/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/text.h"
#include "cli/up/line_reader.h"

namespace rondo::cli {
namespace {

// In the child between fork and exec: async-signal-safe calls only, because the parent has threads.
[[noreturn]] void Exec(char* const* argv, int death_signal, pid_t parent, int in, int out, int err, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, death_signal);
  if (getppid() != parent) _exit(1);  // it died before the line above
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0) {
    execvp(argv[0], argv);
  }
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = write(report, &reason, sizeof(reason));
  _exit(127);
}

bool IsChatter(std::string_view line) {
  // mpirun frames its advice with dashes; what it says there about a lost rank is less than the rank's own last words.
  return line.empty() || line.find_first_not_of("- \t\r") == std::string_view::npos;
}

bool IsLogLine(std::string_view line) {
  return line.find(" error: ") != std::string_view::npos || line.find(" warning: ") != std::string_view::npos ||
         line.substr(0, 7) == "rondo-w" || line.substr(0, 7) == "rondo-c";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Child>> Child::Start(boost::asio::io_context& io, const std::vector<std::string>& argv,
                                                    int death_signal, std::function<void(std::string_view)> on_line) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  int out[2], err[2], report[2];
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot make pipes: ", std::strerror(errno)));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Exec(words.data(), death_signal, parent, null, out[1], err[1], report[1]);
  const int fork_error = errno;
  for (const int fd : {null, out[1], err[1], report[1]}) close(fd);
  int reason = 0;
  const bool failed = pid < 0 || read(report[0], &reason, sizeof(reason)) == sizeof(reason);
  close(report[0]);
  if (failed) {
    close(out[0]);
    close(err[0]);
    if (pid > 0) waitpid(pid, nullptr, 0);
    return absl::UnavailableError(
        absl::StrCat("cannot run ", argv[0], ": ", std::strerror(pid < 0 ? fork_error : reason)));
  }
  std::unique_ptr<Child> child(new Child);
  child->pid_ = pid;
  child->out_ = std::make_shared<LineReader>(io, out[0], -1, std::move(on_line));
  child->err_ =
      std::make_shared<LineReader>(io, err[0], STDERR_FILENO, [recent = &child->recent_](std::string_view line) {
        if (IsChatter(line)) return;
        recent->emplace_back(line);
        if (recent->size() > 50) recent->pop_front();
      });
  child->out_->Start();
  child->err_->Start();
  return child;
}

Child::~Child() {
  // The readers' callbacks point into this child and its owner.
  out_->DrainAndClose();
  err_->DrainAndClose();
}

void Child::Signal(int signal) const { kill(-pid_, signal); }

void Child::Mute() { err_->Mute(); }

std::string Child::LastWords() const {
  err_->DrainAndClose();
  const auto logged = std::find_if(recent_.rbegin(), recent_.rend(), [](const std::string& l) { return IsLogLine(l); });
  if (logged != recent_.rend()) return *logged;
  return recent_.empty() ? "" : recent_.back();
}

int KillOrphans(const std::vector<pid_t>& known) {
  int killed = 0;
  std::ifstream file(absl::StrCat("/proc/self/task/", getpid(), "/children"));
  for (pid_t pid; file >> pid;) {
    if (std::find(known.begin(), known.end(), pid) != known.end()) continue;
    if (kill(pid, SIGKILL) == 0) ++killed;
  }
  return killed;
}

}  // namespace rondo::cli
