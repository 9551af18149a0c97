// rondo-coordinator: takes jobs from clients, gives them to groups of ranks.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/log.h"
#include "coordinator/rpc/server.h"

namespace rondo::coordinator {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  rondo-coordinator                                     # 127.0.0.1:7070\n"
    "  rondo-coordinator --listen 127.0.0.1:0 --journal none # a free port, nothing kept\n"
    "  mpirun -np 4 rondo-worker --coordinator 127.0.0.1:7070 --model M.gguf\n"
    "\n"
    "Takes jobs from clients and gives them to groups of workers. Prints \"listening ADDRESS\" when it serves.\n"
    "SIGTERM: no new jobs, running ones may end within --grace; a second signal does not wait.";

struct Flags {
  std::string listen = "127.0.0.1:7070";
  std::string journal;
  uint32_t queue_limit = 64;
  uint32_t max_running = 4;
  double grace_s = 10;
  double group_wait_s = 300;
  double rank_timeout_s = 2.5;
  double forming_timeout_s = 60;
  double upload_wait_s = 600;
  double attention_keep_s = 600;
  double stall_timeout_s = 300;
  uint64_t max_upload = 64u << 20;
  uint64_t max_uploads_total = 512u << 20;
  uint64_t compact_bytes = 64u << 20;
};

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string DefaultJournal(const std::string& address) {
  std::string state = Env("RONDO_STATE");
  if (state.empty() && !Env("XDG_STATE_HOME").empty()) state = Env("XDG_STATE_HOME") + "/rondo";
  if (state.empty()) state = Env("HOME") + "/.local/state/rondo";
  return absl::StrCat(state, "/journal-", address.substr(address.rfind(':') + 1));
}

bool IsLoopback(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.starts_with("127.") || host == "localhost" || host == "[::1]" || address.starts_with("unix:");
}

int64_t Us(double seconds) { return static_cast<int64_t>(seconds * 1e6); }

absl::Status OpenJournal(const std::string& path, std::unique_ptr<Journal>* journal, JobHistory* history) {
  absl::StatusOr<std::unique_ptr<Journal>> opened = Journal::Open(path);
  if (!opened.ok()) return opened.status();
  *journal = *std::move(opened);
  absl::StatusOr<Journal::Replayed> replayed =
      (*journal)->Replay([&](std::string_view payload) { return history->Apply(payload); });
  if (!replayed.ok()) return replayed.status();
  if (replayed->torn_bytes > 0) {
    LogWarning("journal ", path, ": ", replayed->torn_bytes, " bytes of an unfinished record were cut off its end");
  }
  const int64_t now =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  if (absl::Status status =
          Compact(**journal, history->Closed(SchedulerOptions{}.retained_jobs), history->Unfinished(), now);
      !status.ok()) {
    return status;
  }
  LogInfo("journal ", path, ": ", history->Unfinished().size(), " unfinished jobs");
  return absl::OkStatus();
}

// CLI::Range lets NaN through.
CLI::Validator Finite(double least, double most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        double value = 0;
        if (absl::SimpleAtod(text, &value) && value >= least && value <= most) return {};
        return absl::StrCat(text, " is not a number from ", least, " to ", most);
      },
      "FLOAT");
}

// Waits for signals on a thread of its own; all other threads have them blocked.
class SignalWatch {
 public:
  explicit SignalWatch(const sigset_t& set) : set_(set) {}
  // The next SIGTERM or SIGINT.
  int Wait() const {
    int signal = 0;
    while (sigwait(&set_, &signal) != 0) {
    }
    return signal;
  }

 private:
  sigset_t set_;
};

int Run(const Flags& flags) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  SetLogRole("coordinator");

  if (!IsLoopback(flags.listen)) {
    LogWarning(flags.listen,
               " is not a loopback address: there is no TLS and no login, anyone who reaches it may use it");
  }
  std::unique_ptr<Journal> journal;
  JobHistory history;
  if (flags.journal != "none") {
    const bool any_port = flags.listen.ends_with(":0");
    // A journal named after a port that changes with each start would never be read again.
    if (!flags.journal.empty() || !any_port) {
      const std::string path = flags.journal.empty() ? DefaultJournal(flags.listen) : flags.journal;
      if (absl::Status status = OpenJournal(path, &journal, &history); !status.ok()) {
        LogError(status.ToString());
        return 1;
      }
    }
  }
  EngineOptions engine;
  engine.scheduler.queue_limit = flags.queue_limit;
  engine.scheduler.max_running = flags.max_running;
  engine.compact_bytes = flags.compact_bytes;
  engine.scheduler.group_wait_us = Us(flags.group_wait_s);
  engine.scheduler.upload_wait_us = Us(flags.upload_wait_s);
  engine.scheduler.attention_keep_us = Us(flags.attention_keep_s);
  engine.scheduler.stall_timeout_us = Us(flags.stall_timeout_s);
  engine.membership.rank_timeout_us = Us(flags.rank_timeout_s);
  engine.membership.forming_timeout_us = Us(flags.forming_timeout_s);
  ServerOptions options;
  options.listen = flags.listen;
  options.uploads.upload_bytes = flags.max_upload;
  options.uploads.total_bytes = flags.max_uploads_total;
  // Five chances to be heard before a rank counts as silent.
  options.heartbeat_interval_us = static_cast<uint64_t>(Us(flags.rank_timeout_s) / 5);
  options.version = RONDO_VERSION;
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start(std::move(options), std::move(engine), std::move(journal), history);
  if (!server.ok()) {
    LogError(server.status().ToString());
    return 1;
  }
  std::printf("listening %s\n", (*server)->address().c_str());
  std::fflush(stdout);

  const SignalWatch watch(signals);
  watch.Wait();
  // A second is kept back for streams to end and ranks to leave.
  const double wait_s = std::max(flags.grace_s - 1, flags.grace_s * 0.8);
  LogInfo("shutting down: running jobs have ", wait_s, " s");
  Engine& core = (*server)->engine();
  core.Drain(Us(wait_s));
  std::thread([&core, watch] {
    watch.Wait();
    LogWarning("second signal: not waiting");
    core.Drain(0);
    watch.Wait();
    ::_exit(130);
  }).detach();
  core.WaitDrained(std::chrono::milliseconds(Us(flags.grace_s) / 1000));
  (*server)->Stop(std::chrono::milliseconds(500));
  std::fflush(stdout);
  // The thread that waits for signals has nothing to clean up.
  ::_exit(0);
}

}  // namespace
}  // namespace rondo::coordinator

int main(int argc, char** argv) {
  using rondo::coordinator::Finite;
  using rondo::coordinator::Flags;
  Flags flags;
  CLI::App app(rondo::coordinator::kExamples, "rondo-coordinator");
  app.add_option("--listen", flags.listen, "HOST:PORT; port 0 takes a free one")
      ->check(rondo::CheckAddress)
      ->capture_default_str();
  app.add_option("--journal", flags.journal,
                 "file that keeps jobs over restarts, or none (default: journal-PORT in "
                 "$RONDO_STATE, $XDG_STATE_HOME/rondo or ~/.local/state/rondo)");
  app.add_option("--compact-journal", flags.compact_bytes,
                 "journal size from which it is written anew whenever it has doubled; 0: only at the start")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--queue-limit", flags.queue_limit, "queued jobs; one more is refused")->capture_default_str();
  app.add_option("--max-running", flags.max_running, "jobs at once in one group")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--grace", flags.grace_s, "seconds from SIGTERM to the end")
      ->check(Finite(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--group-wait", flags.group_wait_s, "seconds a job without a deadline waits for a group")
      ->check(Finite(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--rank-timeout", flags.rank_timeout_s, "seconds of silence after which a rank is lost")
      ->check(Finite(0.1, 3600.0))
      ->capture_default_str();
  app.add_option("--stall-timeout", flags.stall_timeout_s,
                 "seconds without any progress after which a group that has work is lost; 0: never")
      ->check(Finite(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--forming-timeout", flags.forming_timeout_s, "seconds for all ranks of a group to join")
      ->check(Finite(0.1, 86400.0))
      ->capture_default_str();
  app.add_option("--upload-wait", flags.upload_wait_s, "seconds an attention job waits for its tensors")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str();
  app.add_option("--attention-keep", flags.attention_keep_s, "seconds an attention job's result is kept")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str();
  app.add_option("--max-upload", flags.max_upload, "bytes of one upload")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--max-uploads-total", flags.max_uploads_total, "bytes of all uploads")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.set_version_flag("--version", RONDO_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return rondo::coordinator::Run(flags);
}
