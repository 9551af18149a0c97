// `rondo up`: keeps one coordinator and one group of workers running on this machine until it is told to stop.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "boost/asio/io_context.hpp"
#include "boost/asio/signal_set.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/asio/thread_pool.hpp"
#include "cli/client_channel.h"
#include "cli/up/backoff.h"
#include "cli/up/child.h"
#include "cli/up/launch.h"

namespace rondo::cli {

// Everything runs on the thread that calls Run, but the question "is the group ready?", which waits on the network.
class Supervisor {
 public:
  explicit Supervisor(UpOptions options);

  // Until Ctrl-C or SIGTERM (0), or until it gives up (1). No child is left behind.
  int Run();

 private:
  void StartCoordinator();
  void StartGroup();
  void StartGroupIn(std::chrono::milliseconds wait);
  void OnCoordinatorLine(std::string_view line);
  void PollReady();
  void OnCluster(const grpc::Status& status, const v1::Cluster& cluster);

  void WaitForChildren();
  void WaitForStop();
  void ReapChildren();
  void OnCoordinatorExit(int wait_status);
  void OnGroupExit(int wait_status);

  // Coordinator first, so that it drains while its ring is still there; then the group; then whatever is left.
  void Stop(int exit_code);
  void StopGroup();
  void KillAll();
  void GiveUp(const std::string& what, const std::string& next);
  void FinishIfDone();

  UpOptions options_;
  boost::asio::io_context io_;
  boost::asio::signal_set stop_signals_;
  boost::asio::signal_set child_signals_;
  boost::asio::steady_timer coordinator_timer_, group_timer_, poll_timer_, stop_timer_;
  boost::asio::thread_pool network_{1};

  std::unique_ptr<Child> coordinator_, group_;
  Backoff coordinator_backoff_, group_backoff_;
  std::string address_;  // empty until the coordinator said it; kept when it is started again
  std::shared_ptr<grpc::Channel> channel_;
  uint64_t last_ready_epoch_ = 0;
  bool group_ready_ = false;
  bool announced_ = false;
  bool stopping_ = false;
  int exit_code_ = 0;
};

}  // namespace rondo::cli
