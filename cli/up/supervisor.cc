#include "cli/up/supervisor.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/text.h"
#include "boost/asio/post.hpp"
#include "cli/show.h"

namespace rondo::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kPollEvery{200};
constexpr seconds kTermGrace{3};  // mpirun itself takes up to a second to end ranks that ignore SIGTERM

std::string ShowExit(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("was killed by signal ", WTERMSIG(status));
  return absl::StrCat("exited with ", WEXITSTATUS(status));
}

}  // namespace

Supervisor::Supervisor(UpOptions options)
    : options_(std::move(options)),
      stop_signals_(io_, SIGINT, SIGTERM, SIGHUP),
      child_signals_(io_, SIGCHLD),
      coordinator_timer_(io_),
      group_timer_(io_),
      poll_timer_(io_),
      stop_timer_(io_) {
  SetLogRole("up");
}

int Supervisor::Run() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // ranks of an mpirun that was killed become ours to end
  WaitForChildren();
  WaitForStop();
  StartCoordinator();
  io_.run();
  network_.join();
  // Orphans of orphans come to us one generation at a time.
  for (int round = 0; round < 100 && (KillOrphans({}) > 0 || waitpid(-1, nullptr, WNOHANG) > 0); ++round)
    usleep(10'000);
  return exit_code_;
}

void Supervisor::StartCoordinator() {
  const std::string listen = address_.empty() ? options_.listen : address_;
  auto child = Child::Start(io_, CoordinatorCommand(options_, listen), SIGTERM,
                            [this](std::string_view line) { OnCoordinatorLine(line); });
  if (!child.ok())
    return GiveUp(std::string(child.status().message()), "build everything first: cmake --workflow --preset release");
  coordinator_ = *std::move(child);
}

void Supervisor::OnCoordinatorLine(std::string_view line) {
  constexpr std::string_view kListening = "listening ";
  if (line.substr(0, kListening.size()) != kListening || stopping_) return;
  address_ = line.substr(kListening.size());
  channel_ = MakeChannel(address_);
  last_ready_epoch_ = 0;
  group_ready_ = false;
  coordinator_backoff_.Succeeded();
  if (group_ == nullptr) StartGroupIn(milliseconds(0));
  PollReady();
}

void Supervisor::StartGroup() {
  group_ready_ = false;
  // SIGTERM, so that an mpirun whose supervisor was killed still ends its ranks.
  auto child = Child::Start(io_, GroupCommand(options_, address_, geteuid() == 0), SIGTERM, [](std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  });
  if (!child.ok()) {
    return GiveUp(std::string(child.status().message()),
                  UnderMpirun(options_) ? "install Open MPI (openmpi-bin), or use --transport loopback" : "");
  }
  group_ = *std::move(child);
}

void Supervisor::StartGroupIn(milliseconds wait) {
  group_timer_.expires_after(wait);
  group_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !stopping_ && group_ == nullptr) StartGroup();
  });
}

void Supervisor::PollReady() {
  poll_timer_.expires_after(kPollEvery);
  poll_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || stopping_) return;
    if (group_ready_ || group_ == nullptr) return PollReady();
    boost::asio::post(network_, [this, channel = channel_] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + seconds(1));
      v1::Cluster cluster;
      const grpc::Status status = v1::Inference::NewStub(channel)->GetCluster(&context, {}, &cluster);
      boost::asio::post(io_, [this, status, cluster] { OnCluster(status, cluster); });
    });
  });
}

void Supervisor::OnCluster(const grpc::Status& status, const v1::Cluster& cluster) {
  if (stopping_) return;
  PollReady();
  if (!status.ok() || group_ == nullptr) return;
  for (const v1::GroupStatus& group : cluster.groups()) {
    // A group that was lost may be listed as ready for a moment more; its epoch tells it from the new one.
    if (group.state() != "ready" || group.epoch() <= last_ready_epoch_) continue;
    last_ready_epoch_ = group.epoch();
    group_ready_ = true;
    group_backoff_.Succeeded();
    LogInfo("group epoch ", group.epoch(), " is ready: ", ShowWorkers(group.world_size()), ", ",
            ShowModel(group.model()));
  }
  if (!group_ready_ || announced_) return;
  announced_ = true;
  std::printf("ready %s\n", address_.c_str());
  std::fflush(stdout);
}

void Supervisor::WaitForChildren() {
  child_signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    WaitForChildren();
    ReapChildren();
  });
}

void Supervisor::WaitForStop() {
  stop_signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    if (stopping_) return KillAll();
    LogInfo("stopping; once more stops at once");
    Stop(0);
    WaitForStop();
  });
}

void Supervisor::ReapChildren() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (coordinator_ != nullptr && pid == coordinator_->pid()) OnCoordinatorExit(status);
    if (group_ != nullptr && pid == group_->pid()) OnGroupExit(status);
  }
  FinishIfDone();
}

void Supervisor::OnCoordinatorExit(int wait_status) {
  const std::string words = coordinator_->LastWords();
  coordinator_ = nullptr;
  if (stopping_) return StopGroup();
  const milliseconds wait = coordinator_backoff_.Failed();
  const std::string what = absl::StrCat("the coordinator ", ShowExit(wait_status));
  if (address_.empty() || options_.once || coordinator_backoff_.exhausted()) {
    return GiveUp(
        words.empty() ? what : absl::StrCat(what, ": ", words),
        absl::StrCat("is another program listening on ", options_.listen, "? Try: rondo up --listen 127.0.0.1:0 ..."));
  }
  LogWarning(what, "; starting it again on ", address_, ", its journal has the jobs");
  coordinator_timer_.expires_after(wait);
  coordinator_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !stopping_) StartCoordinator();
  });
}

void Supervisor::OnGroupExit(int wait_status) {
  const std::string words = group_->LastWords();
  group_ = nullptr;
  std::vector<pid_t> known;
  if (coordinator_ != nullptr) known.push_back(coordinator_->pid());
  KillOrphans(known);
  if (stopping_) return;
  const milliseconds wait = group_backoff_.Failed();
  const std::string what = absl::StrCat("the group ", ShowExit(wait_status));
  if (options_.once) return GiveUp(absl::StrCat(what, words.empty() ? "" : ": ", words), "");
  if (group_backoff_.exhausted()) {
    return GiveUp(absl::StrCat(what, " ", Backoff::kGiveUpAfter, " times in a row before it was ready",
                               words.empty() ? "" : "; its last words: ", words),
                  absl::StrCat("try the model by itself with: rondo-worker --check-model --model ", options_.model));
  }
  LogWarning(what, "; starting it again in ", wait.count(), " ms");
  StartGroupIn(wait);
}

void Supervisor::Stop(int exit_code) {
  if (stopping_) return;
  stopping_ = true;
  exit_code_ = exit_code;
  coordinator_timer_.cancel();
  group_timer_.cancel();
  poll_timer_.cancel();
  if (coordinator_ == nullptr) return StopGroup();
  coordinator_->Signal(SIGTERM);
  stop_timer_.expires_after(seconds(options_.drain_s) + kTermGrace);
  stop_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) KillAll();
  });
}

void Supervisor::StopGroup() {
  if (group_ == nullptr) return FinishIfDone();
  group_->Mute();
  group_->Signal(SIGTERM);
  stop_timer_.expires_after(kTermGrace);
  stop_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) KillAll();
  });
}

void Supervisor::KillAll() {
  if (coordinator_ != nullptr) coordinator_->Signal(SIGKILL);
  if (group_ != nullptr) group_->Signal(SIGKILL);
}

void Supervisor::GiveUp(const std::string& what, const std::string& next) {
  if (!stopping_) Fail(kFailure, what, next);
  Stop(kFailure);
  FinishIfDone();
}

void Supervisor::FinishIfDone() {
  if (!stopping_ || coordinator_ != nullptr || group_ != nullptr) return;
  stop_timer_.cancel();
  stop_signals_.cancel();
  child_signals_.cancel();
  io_.stop();
}

}  // namespace rondo::cli
