// rondo jobs, rondo cancel: what is queued and running, and how to end one.
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "cli/client_channel.h"
#include "cli/commands.h"
#include "cli/duration.h"
#include "cli/json_out.h"
#include "cli/show.h"

namespace rondo::cli {
namespace {

struct Options {
  std::string coordinator;
  std::string id;
  bool json = false;
};

constexpr std::chrono::seconds kTimeout{10};

Json JobJson(const v1::Job& job) {
  return Json{{"id", job.id()},
              {"state", job.state()},
              {"kind", job.kind()},
              {"stage", job.stage()},
              {"prompt_tokens", job.prompt_tokens()},
              {"max_tokens", job.max_tokens()},
              {"completion_tokens", job.completion_tokens()},
              {"prefill_fraction", job.prefill_fraction()},
              {"submitted_unix_us", job.submitted_unix_us()},
              {"restarts", job.restarts()},
              {"queue_position", job.queue_position()},
              {"error", job.error()}};
}

std::vector<std::string> Row(const v1::Job& job, absl::Time now) {
  std::string done;
  if (job.state() == "queued") {
    done = absl::StrCat(job.queue_position(), " ahead");
  } else if (job.kind() == "attention") {
    done = job.stage();
    if (job.stage() == "attending")
      absl::StrAppendFormat(&done, " %d %%", static_cast<int>(job.prefill_fraction() * 100));
  } else if (job.completion_tokens() == 0 && job.prefill_fraction() < 1) {
    done = absl::StrFormat("prefill %d %%", static_cast<int>(job.prefill_fraction() * 100));
  } else {
    done = absl::StrCat(job.completion_tokens(), " of at most ", job.max_tokens(), " tokens");
  }
  const absl::Duration age = now - absl::FromUnixMicros(job.submitted_unix_us());
  return {job.id(),
          job.kind(),
          job.state(),
          ShowCount(job.prompt_tokens()),
          done,
          ShowDuration(age),
          absl::StrCat(job.restarts())};
}

int RunJobs(const Options& o) {
  const std::unique_ptr<Client> client = Client::Connect(o.coordinator);
  if (client == nullptr) return kNoCoordinator;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  v1::ListJobsReply reply;
  const grpc::Status status = client->stub().ListJobs(&context, {}, &reply);
  if (!status.ok()) return client->Report(status);
  if (o.json) {
    Json jobs = Json::array();
    for (const v1::Job& job : reply.jobs()) jobs.push_back(JobJson(job));
    return PrintJson(Json{{"jobs", jobs}}) ? kOk : kFailure;
  }
  if (reply.jobs().empty()) {
    std::puts("no jobs");
    return kOk;
  }
  std::vector<std::vector<std::string>> rows = {{"JOB", "KIND", "STATE", "TOKENS", "DONE", "AGE", "RESTARTS"}};
  for (const v1::Job& job : reply.jobs()) rows.push_back(Row(job, absl::Now()));
  std::fputs(ShowTable(rows).c_str(), stdout);
  return kOk;
}

int RunCancel(const Options& o) {
  const std::unique_ptr<Client> client = Client::Connect(o.coordinator);
  if (client == nullptr) return kNoCoordinator;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  v1::CancelJobRequest request;
  request.set_id(o.id);
  v1::CancelJobReply reply;
  const grpc::Status status = client->stub().CancelJob(&context, request, &reply);
  if (!status.ok()) return client->Report(status);
  if (!reply.was_active()) return Fail(kFailure, absl::StrCat("job ", o.id, " was over already"), "see: rondo jobs");
  std::printf("cancelled %s\n", o.id.c_str());
  return kOk;
}

}  // namespace

void AddJobsCommand(CLI::App& app, RunCommand* run) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("jobs",
                                         "List queued and running jobs\n\n"
                                         "Examples:\n"
                                         "  rondo jobs\n"
                                         "  rondo jobs --json");
  AddCoordinatorOption(*command, &o->coordinator);
  command->add_flag("--json", o->json, "Print one JSON object");
  command->callback([o, run] { *run = [o] { return RunJobs(*o); }; });
}

void AddCancelCommand(CLI::App& app, RunCommand* run) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("cancel",
                                         "End a queued or running job\n\n"
                                         "Examples:\n"
                                         "  rondo jobs            # shows the ids\n"
                                         "  rondo cancel ID");
  AddCoordinatorOption(*command, &o->coordinator);
  command->add_option("id", o->id, "The job, as rondo jobs and rondo generate show it")->required()->type_name("ID");
  command->callback([o, run] { *run = [o] { return RunCancel(*o); }; });
}

}  // namespace rondo::cli
