// rondo generate: asks the model about a document, or lets it continue a prompt, and streams the answer.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/client_channel.h"
#include "cli/commands.h"
#include "cli/duration.h"
#include "cli/generate_call.h"
#include "cli/npy_writer.h"
#include "cli/option_names.h"
#include "cli/progress.h"
#include "cli/request_options.h"
#include "cli/result_out.h"
#include "cli/show.h"

namespace rondo::cli {
namespace {

struct Options {
  std::string coordinator;
  RequestOptions request;
  std::string logits_out;
  std::string summary_out;
  bool json = false;
  bool quiet = false;
};

// To --summary-out and, with --json, to stdout.
ExitCode WriteResult(const Options& o, const GenerateOutcome& outcome) {
  const Json json = ResultJson(outcome.result, outcome.text, outcome.tokens);
  if (!o.summary_out.empty()) {
    std::ofstream file(o.summary_out);
    file << JsonLine(json) << "\n";
    if (!file.flush()) return Fail(kFailure, absl::StrCat("cannot write ", o.summary_out), "");
  }
  if (o.json && !PrintJson(json)) return Fail(kFailure, "standard output is closed", "");
  return kOk;
}

int RunGenerateCommand(const Options& o) {
  absl::StatusOr<PreparedRequest> prepared = PrepareRequest(o.request);
  if (!prepared.ok()) return FailStatus(prepared.status(), "see: rondo generate --help");
  prepared->request.set_want_logits(!o.logits_out.empty());
  std::unique_ptr<NpyWriter> logits;
  if (!o.logits_out.empty()) {
    absl::StatusOr<std::unique_ptr<NpyWriter>> opened = NpyWriter::Open(o.logits_out);
    if (!opened.ok())
      return FailStatus(opened.status(), "name a file in a folder that can be written with --logits-out");
    logits = *std::move(opened);
  }

  // Now, not after hours of work. Appending leaves what is there until there is something better.
  if (!o.summary_out.empty() && !std::ofstream(o.summary_out, std::ios::app)) {
    return Fail(kFailure, absl::StrCat("cannot write ", o.summary_out, ": ", std::strerror(errno)),
                "name a file in a folder that can be written with --summary-out");
  }

  Interrupt interrupt;
  const std::unique_ptr<Client> client = Client::Connect(o.coordinator);
  if (client == nullptr) return kNoCoordinator;
  if (const grpc::Status status = UploadLargeTexts(client->stub(), prepared->deadline, &prepared->request);
      !status.ok()) {
    return client->Report(WithOptionNames(status, RequestFields()));
  }

  ProgressLine progress = ProgressLine::ForStderr(o.quiet);
  uint64_t prompt_tokens = 0;
  bool at_line_start = true;
  GenerateEvents events;
  events.accepted = [&](const v1::Accepted& accepted) {
    prompt_tokens = accepted.prompt_tokens();
    progress.Note(absl::StrCat(
        "job ", accepted.id(), ": ", ShowCount(prompt_tokens), " prompt tokens",
        accepted.queue_position() > 0 ? absl::StrCat(", ", accepted.queue_position(), " ahead in the queue") : ""));
  };
  events.progress = [&](const v1::Progress& event) {
    // A restart in the middle of the answer must not be glued to its last line on a terminal.
    if (!at_line_start && !o.json && isatty(STDOUT_FILENO)) return;
    progress.Show(v1::Progress::Phase_Name(event.phase()), DescribeProgress(event, prompt_tokens), absl::Now());
  };
  events.delta = [&](const v1::Delta& delta) -> absl::Status {
    progress.Clear();
    if (o.json || delta.text().empty()) return absl::OkStatus();
    at_line_start = delta.text().back() == '\n';
    if (std::fwrite(delta.text().data(), 1, delta.text().size(), stdout) != delta.text().size() ||
        std::fflush(stdout) != 0) {
      return absl::UnavailableError("standard output is closed");
    }
    return absl::OkStatus();
  };
  events.logits = [&](const v1::Logits& event) -> absl::Status {
    if (logits == nullptr) return absl::OkStatus();
    return logits->Append(event.step(), event.offset(), event.values());
  };

  events.note = [&](const std::string& text) { progress.Note(text); };

  GenerateOutcome outcome = RunGenerate(*client, prepared->request, prepared->deadline, interrupt, events);
  progress.Clear();
  if (!o.json && (outcome.finished || !outcome.text.empty())) std::putchar('\n');
  std::fflush(stdout);
  if (outcome.interrupted && !outcome.finished) outcome.result = CancelledResult(outcome);
  const bool has_result = outcome.finished || outcome.interrupted;
  if (const ExitCode code = ReportOutcome(*client, outcome); code != kOk) {
    if (has_result) WriteResult(o, outcome);
    return code;
  }
  if (logits != nullptr) {
    if (const absl::Status status = logits->Finish(); !status.ok()) return FailStatus(status, "");
  }
  if (!o.quiet) std::fprintf(stderr, "%s\n", ResultSummary(outcome.result).c_str());
  return WriteResult(o, outcome);
}

}  // namespace

void AddGenerateCommand(CLI::App& app, RunCommand* run) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("generate",
                         "Answer a question about a document, or continue a prompt\n\n"
                         "Examples:\n"
                         "  rondo generate --document book.txt --question \"Who wrote the letters?\"\n"
                         "  rondo generate --question \"What is the capital of France?\" --max-tokens 40\n"
                         "  git log | rondo generate --document - --question \"What changed?\" --deadline 10m\n"
                         "  rondo generate --prompt \"Once upon a time\" --temperature 0.8 --seed 7\n"
                         "  rondo generate --prompt-ids ids.txt --logits-out logits.npy --json\n\n"
                         "The answer goes to stdout while it is drawn; progress and a summary go to stderr.");
  AddCoordinatorOption(*command, &o->coordinator);
  AddRequestOptions(*command, &o->request);
  command->add_option("--ring-size", o->request.ring_size, "Use the first N workers only; 0 uses all. Same bits")
      ->type_name("N")
      ->group("Limits")
      ->capture_default_str();
  command->add_option("--logits-out", o->logits_out, "Write the logits of every step, float32 [steps, vocabulary]")
      ->type_name("FILE.npy");
  command->add_option("--summary-out", o->summary_out, "Also write the object of --json to this file")
      ->type_name("FILE");
  command->add_flag("--json", o->json, "Print one JSON object when done, in place of the text");
  command->add_flag("-q,--quiet", o->quiet, "No progress and no summary");
  command->callback([o, run] { *run = [o] { return RunGenerateCommand(*o); }; });
}

}  // namespace rondo::cli
