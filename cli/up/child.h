// A child process of `rondo up`: its own process group, its output read line by line, and it dies when we do.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "boost/asio/io_context.hpp"

namespace rondo::cli {

class LineReader;

class Child {
 public:
  // Starts argv[0] (found on PATH when it has no slash) with /dev/null as its input. Its stderr is copied to ours;
  // on_line gets the lines of its stdout. The kernel sends it `death_signal` when this thread ends, however it ends.
  static absl::StatusOr<std::unique_ptr<Child>> Start(boost::asio::io_context& io, const std::vector<std::string>& argv,
                                                      int death_signal, std::function<void(std::string_view)> on_line);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }

  // To the whole process group. Only before the child has been reaped.
  void Signal(int signal) const;

  // Stops copying its stderr to ours: mpirun explains at length that it was told to stop.
  void Mute();

  // What it said last on stderr, log lines before launcher chatter; "" when it said nothing.
  std::string LastWords() const;

 private:
  Child() = default;

  pid_t pid_ = -1;
  std::shared_ptr<LineReader> out_;
  std::shared_ptr<LineReader> err_;
  std::deque<std::string> recent_;
};

// Processes that became ours because their parent died (we are a subreaper) and are none of `known`: the ranks of an
// mpirun that was killed. Sends each SIGKILL and returns how many there were.
int KillOrphans(const std::vector<pid_t>& known);

}  // namespace rondo::cli
