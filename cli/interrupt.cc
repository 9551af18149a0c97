#include "cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "cli/exit_codes.h"

namespace rondo::cli {
namespace {

sigset_t Signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t set = Signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { WaitLoop(); });
}

Interrupt::~Interrupt() {
  stop_ = true;
  thread_.join();
}

void Interrupt::OnInterrupt(std::function<void()> handler) {
  std::lock_guard<std::mutex> lock(mutex_);
  handler_ = std::move(handler);
  if (interrupted_ && handler_) handler_();
}

void Interrupt::WaitLoop() {
  pthread_setname_np(pthread_self(), "rondo-signals");
  const sigset_t set = Signals();
  const timespec tick{0, 100'000'000};  // also how long the destructor may wait
  int ticks_left = -1;
  while (!stop_) {
    if (sigtimedwait(&set, nullptr, &tick) > 0) {
      if (interrupted_.exchange(true)) _exit(kInterrupted);
      std::lock_guard<std::mutex> lock(mutex_);
      if (handler_) handler_();
      ticks_left = 20;
    } else if (ticks_left > 0 && --ticks_left == 0) {
      _exit(kInterrupted);
    }
  }
}

}  // namespace rondo::cli
