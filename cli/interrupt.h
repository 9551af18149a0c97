// Ctrl-C for commands that wait on the coordinator: the handler runs on a thread, so it may cancel a call.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace rondo::cli {

// Blocks SIGINT and SIGTERM for the whole process, so it is made in main before any other thread is. The first signal
// runs the handler set at that time; a second one, or 2 s without the command ending, exits with 130.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool interrupted() const { return interrupted_.load(); }

  // Replaces the handler; runs it at once if the signal has already come. Empty: nothing to do.
  void OnInterrupt(std::function<void()> handler);

 private:
  void WaitLoop();

  std::mutex mutex_;
  std::function<void()> handler_;
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace rondo::cli
