// rondo jobs, rondo cancel: what is queued and running, what one job has answered, and how to end one.
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "cli/client_channel.h"
#include "cli/commands.h"
#include "cli/duration.h"
#include "cli/json_out.h"
#include "cli/result_out.h"
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

// The list's object with the fields of `rondo generate --json` added: what is not known yet has its zero.
Json WholeJobJson(const v1::Job& job) {
  Json json = JobJson(job);
  v1::Finished result = job.result();
  result.set_id(job.id());
  result.set_prompt_tokens(job.prompt_tokens());
  result.set_completion_tokens(job.completion_tokens());
  result.set_restarts(job.restarts());
  json.update(ResultJson(result, job.text(), {job.tokens().begin(), job.tokens().end()}));
  return json;
}

std::string Done(const v1::Job& job) {
  if (job.state() == "queued") return absl::StrCat(job.queue_position(), " ahead");
  if (job.kind() == "attention") {
    std::string stage = job.stage();
    if (stage == "attending") absl::StrAppendFormat(&stage, " %d %%", static_cast<int>(job.prefill_fraction() * 100));
    return stage;
  }
  if (job.state() == "running" && job.completion_tokens() == 0 && job.prefill_fraction() < 1) {
    return absl::StrFormat("prefill %d %%", static_cast<int>(job.prefill_fraction() * 100));
  }
  return absl::StrCat(job.completion_tokens(), " of at most ", job.max_tokens(), " tokens");
}

std::vector<std::string> Row(const v1::Job& job, absl::Time now) {
  const absl::Duration age = now - absl::FromUnixMicros(job.submitted_unix_us());
  return {job.id(),
          job.kind(),
          job.state(),
          ShowCount(job.prompt_tokens()),
          Done(job),
          ShowDuration(age),
          absl::StrCat(job.restarts())};
}

int RunOneJob(Client& client, const Options& o) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  v1::GetJobRequest request;
  request.set_id(o.id);
  v1::Job job;
  const grpc::Status status = client.stub().GetJob(&context, request, &job);
  if (!status.ok()) return client.Report(status);
  if (o.json) return PrintJson(WholeJobJson(job)) ? kOk : kFailure;
  std::fprintf(stderr, "job      %s, %s, %s\n", job.id().c_str(), job.state().c_str(), Done(job).c_str());
  if (!job.error().empty()) std::fprintf(stderr, "error    %s\n", job.error().c_str());
  if (job.state() == "finished") std::fprintf(stderr, "%s\n", ResultSummary(job.result()).c_str());
  if (!job.text_known() && job.tokens_size() > 0) {
    std::fprintf(stderr, "text     not known until a group with the job's model joins\n");
  }
  if (job.text().empty()) return kOk;
  const std::string text = job.text() + "\n";
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return written ? kOk : Fail(kFailure, "standard output is closed", "");
}

int RunJobs(const Options& o) {
  const std::unique_ptr<Client> client = Client::Connect(o.coordinator);
  if (client == nullptr) return kNoCoordinator;
  if (!o.id.empty()) return RunOneJob(*client, o);
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
  CLI::App* command =
      app.add_subcommand("jobs",
                         "List queued and running jobs, or show one and what it has answered\n\n"
                         "Examples:\n"
                         "  rondo jobs\n"
                         "  rondo jobs ID          # also of a job that is over: text, figures, digest\n"
                         "  rondo jobs ID --json");
  AddCoordinatorOption(*command, &o->coordinator);
  command->add_option("id", o->id, "One job, queued, running or among the last 200 that ended")->type_name("ID");
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
