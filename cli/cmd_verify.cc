// rondo verify: runs a request on the whole ring and on one worker and compares every bit, then measures both against
// the float64 reference model.
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/client_channel.h"
#include "cli/commands.h"
#include "cli/generate_call.h"
#include "cli/json_out.h"
#include "cli/logits_compare.h"
#include "cli/option_names.h"
#include "cli/progress.h"
#include "cli/request_options.h"
#include "cli/show.h"

namespace rondo::cli {
namespace {

struct Options {
  std::string coordinator;
  RequestOptions request;
  bool no_reference = false;
  bool json = false;
};

struct Run {
  ExitCode code = kOk;
  GenerateOutcome outcome;
  LogitsTable logits;
};

Run RunOnce(Client& client, const PreparedRequest& prepared, const v1::GenerateRequest& request, Interrupt& interrupt,
            const std::string& name) {
  Run run;
  ProgressLine progress = ProgressLine::ForStderr(false);
  uint64_t prompt_tokens = 0;
  uint64_t steps = 0;
  GenerateEvents events;
  events.accepted = [&](const v1::Accepted& accepted) {
    prompt_tokens = accepted.prompt_tokens();
    progress.Note(absl::StrCat(name, ": ", ShowCount(prompt_tokens), " prompt tokens"));
  };
  events.progress = [&](const v1::Progress& event) {
    progress.Show(v1::Progress::Phase_Name(event.phase()),
                  absl::StrCat(name, ": ", DescribeProgress(event, prompt_tokens)), absl::Now());
  };
  events.logits = [&](const v1::Logits& event) {
    if (event.offset() == 0) progress.Show("step", absl::StrCat(name, ": step ", ++steps), absl::Now());
    return run.logits.Append(event.step(), event.offset(), event.values());
  };
  run.outcome = RunGenerate(client, request, prepared.deadline, interrupt, events);
  progress.Clear();
  run.code = ReportOutcome(client, run.outcome);
  return run;
}

std::string ShowDifference(const LogitsDifference& d) {
  return absl::StrFormat("largest difference %.3g, %.3g of a row's standard deviation", d.largest_absolute,
                         d.largest_relative);
}

int RunVerify(const Options& o) {
  absl::StatusOr<PreparedRequest> prepared = PrepareRequest(o.request);
  if (!prepared.ok()) return FailStatus(prepared.status(), "see: rondo verify --help");
  Interrupt interrupt;
  const std::unique_ptr<Client> client = Client::Connect(o.coordinator);
  if (client == nullptr) return kNoCoordinator;
  v1::GenerateRequest request = prepared->request;
  request.set_want_logits(true);
  if (const grpc::Status status = UploadLargeTexts(client->stub(), prepared->deadline, &request); !status.ok()) {
    return client->Report(WithOptionNames(status, RequestFields()));
  }

  const Run ring = RunOnce(*client, *prepared, request, interrupt, "ring");
  if (ring.code != kOk) return ring.code;
  request.set_ring_size(1);
  const Run one = RunOnce(*client, *prepared, request, interrupt, "one worker");
  if (one.code != kOk) return one.code;
  const LogitsDifference bits = CompareLogits(ring.logits, one.logits);
  const bool equal = bits.same_shape && bits.different == 0 && ring.outcome.tokens == one.outcome.tokens &&
                     ring.outcome.result.digest() == one.outcome.result.digest() && ring.logits.rows() > 0;

  Json json{{"equal", equal},
            {"workers", ring.outcome.result.workers()},
            {"steps", ring.logits.rows()},
            {"digest", ring.outcome.result.digest()},
            {"digest_one_worker", one.outcome.result.digest()},
            {"different_values", bits.different}};
  std::string text =
      absl::StrCat("ring        ", ShowWorkers(ring.outcome.result.workers()), ", digest ",
                   ring.outcome.result.digest(), "\none worker  digest ", one.outcome.result.digest(), "\n");
  if (equal) {
    absl::StrAppend(&text, "equal       every bit of ", ShowCount(ring.logits.values().size()), " logits in ",
                    ring.logits.rows(), ring.logits.rows() == 1 ? " step" : " steps");
  } else if (bits.same_shape && bits.different > 0) {
    absl::StrAppend(&text, "DIFFERENT   ", ShowCount(bits.different), " logits, first in step ", bits.first_step,
                    " token ", bits.first_token, "; ", ShowDifference(bits));
  } else {
    absl::StrAppend(&text, "DIFFERENT   ", ring.logits.rows(), " steps and ", one.logits.rows(), " steps");
  }
  if (!o.json) std::printf("%s\n", text.c_str());
  std::fflush(stdout);

  if (!o.no_reference) {
    std::fprintf(stderr,
                 "Now the float64 reference model: plain loops on one worker, slow (--no-reference skips it)\n");
    request.set_reference(true);
    for (const int32_t id : ring.outcome.tokens) request.add_forced_tokens(id);
    request.clear_stop();
    const Run reference = RunOnce(*client, *prepared, request, interrupt, "reference");
    if (reference.code != kOk) return reference.code;
    // The run stops after the forced tokens; the ring may have drawn an end token after them. Compare what both have.
    const LogitsDifference accuracy = CompareCommonRows(ring.logits, reference.logits);
    json["reference_steps"] = std::min(ring.logits.rows(), reference.logits.rows());
    json["largest_absolute"] = accuracy.largest_absolute;
    json["largest_relative"] = accuracy.largest_relative;
    if (!o.json) {
      std::printf("float64     over %llu steps, compute %s: %s\n",
                  static_cast<unsigned long long>(std::min(ring.logits.rows(), reference.logits.rows())),
                  ring.outcome.result.compute().c_str(), ShowDifference(accuracy).c_str());
    }
  }
  if (o.json && !PrintJson(json)) return kFailure;
  if (equal) return kOk;
  return Fail(kFailure, "the ring's bits are not those of one worker",
              "this is a bug of Rondo's: please report it with the model, the request and `rondo status --json`");
}

}  // namespace

void AddVerifyCommand(CLI::App& app, RunCommand* run) {
  auto o = std::make_shared<Options>();
  o->request.max_tokens = 16;
  CLI::App* command =
      app.add_subcommand("verify",
                         "Check that the ring gives one worker's bits, and measure both against float64\n\n"
                         "Examples:\n"
                         "  rondo verify --document book.txt --question \"Who wrote the letters?\"\n"
                         "  rondo verify --prompt \"Once upon a time\" --max-tokens 64 --no-reference\n\n"
                         "Exits with 0 only if every bit of every logit is equal.");
  AddCoordinatorOption(*command, &o->coordinator);
  AddRequestOptions(*command, &o->request);
  command->add_flag("--no-reference", o->no_reference, "Leave out the float64 reference model");
  command->add_flag("--json", o->json, "Print one JSON object");
  command->callback([o, run] { *run = [o] { return RunVerify(*o); }; });
}

}  // namespace rondo::cli
