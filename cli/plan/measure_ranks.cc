#include "cli/plan/measure_ranks.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "cli/json_out.h"
#include "cli/up/child.h"

namespace rondo::cli {
namespace {

constexpr std::string_view kMeasured = "measured ";
constexpr absl::Duration kEndGrace = absl::Seconds(5);

// Gone by `deadline`, or told to.
void End(const Child& child, absl::Time deadline) {
  bool killed = false;
  while (waitpid(child.pid(), nullptr, WNOHANG) == 0) {
    if (!killed && absl::Now() > deadline) {
      child.Signal(SIGKILL);
      killed = true;
    }
    usleep(10'000);
  }
}

}  // namespace

absl::StatusOr<MeasuredRanks> ParseMeasured(std::string_view line) {
  if (line.substr(0, kMeasured.size()) != kMeasured) {
    return absl::InternalError(absl::StrCat("not a line of figures: ", Sv(line)));
  }
  const Json json = Json::parse(line.substr(kMeasured.size()), nullptr, false);
  if (!json.is_object()) return absl::InternalError(absl::StrCat("not JSON: ", Sv(line)));
  MeasuredRanks out;
  struct Figure {
    const char* name;
    double* value;
    bool may_be_zero;
  };
  const bool alone = json.value("ranks", 1) == 1;
  RankRates& r = out.rates;
  for (const Figure& f : {Figure{"dense_flops", &r.dense_flops, false},
                          {"attention_flops", &r.attention_flops, false},
                          {"decode_dense_s", &r.decode_dense_s, false},
                          {"decode_attend_s", &r.decode_attend_s, true},
                          {"kv_read_bytes_per_s", &r.kv_read_bytes_per_s, false},
                          {"link_bytes_per_s", &r.link_bytes_per_s, alone},
                          {"link_latency_s", &r.link_latency_s, alone}}) {
    const auto at = json.find(f.name);
    if (at == json.end() || !at->is_number())
      return absl::InternalError(absl::StrCat(f.name, " is missing: ", Sv(line)));
    *f.value = at->get<double>();
    if (!(*f.value > 0 || (f.may_be_zero && *f.value == 0))) {
      return absl::InternalError(absl::StrCat(f.name, " is ", *f.value, ", not above 0"));
    }
  }
  out.kernels = json.value("kernels", "");
  out.compute = json.value("compute", "");
  out.kv_type = json.value("kv_type", "");
  out.threads = json.value("threads", 0);
  return out;
}

absl::StatusOr<MeasuredRanks> MeasureRanks(UpOptions options, absl::Duration timeout,
                                           absl::FunctionRef<void(absl::Duration passed)> waiting) {
  options.worker_arguments.push_back("--measure");
  boost::asio::io_context io;
  absl::StatusOr<MeasuredRanks> measured = absl::UnknownError("no figures");
  bool seen = false;
  auto child = Child::Start(io, GroupCommand(options, "", geteuid() == 0), SIGTERM, [&](std::string_view line) {
    if (line.substr(0, kMeasured.size()) != kMeasured) return;
    measured = ParseMeasured(line);
    seen = true;
  });
  if (!child.ok()) return child.status();
  const absl::Time began = absl::Now();
  const absl::Time deadline = began + timeout;
  // The pipes close when every rank has ended.
  while (!io.stopped() && absl::Now() < deadline) {
    io.run_for(std::chrono::milliseconds(100));
    waiting(absl::Now() - began);
  }
  const bool late = absl::Now() >= deadline;
  if (late) (*child)->Signal(SIGTERM);
  End(**child, absl::Now() + kEndGrace);
  if (seen) return measured;
  if (late) return absl::DeadlineExceededError(absl::StrCat("no figures after ", absl::FormatDuration(timeout)));
  return absl::InternalError(absl::StrCat("the ranks ended without figures: ", (*child)->LastWords()));
}

}  // namespace rondo::cli
