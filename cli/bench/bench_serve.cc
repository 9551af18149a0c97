// rondo bench serve: what clients of a running coordinator see under load.
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/bench/commands.h"
#include "cli/bench/host_facts.h"
#include "cli/bench/serve_load.h"
#include "cli/client_channel.h"
#include "cli/exit_codes.h"
#include "cli/show.h"

namespace rondo::cli {
namespace {

Json ServeJson(const LoadOptions& o, const LoadSummary& s, const LoadResult& result, const BenchFacts& facts) {
  Json requests = Json::array();
  for (const RequestTimes& r : result.requests) {
    requests.push_back(
        Json{{"begin_s", r.begin_s}, {"ttft_s", r.ttft_s}, {"end_s", r.end_s}, {"answer_tokens", r.tokens}});
  }
  return Json{{"benchmark", "serve"},
              {"machine", facts.machine},
              {"cores", facts.cores},
              {"date", facts.date},
              {"command", facts.command},
              {"clients", o.clients},
              {"prompt_tokens", o.prompt_tokens},
              {"answer_tokens", o.answer_tokens},
              {"answered", s.answered},
              {"failed", s.failed},
              {"failures", result.failures},
              {"seconds", s.seconds},
              {"requests_per_s", s.requests_per_s},
              {"prompt_tokens_per_s", s.prompt_tokens_per_s},
              {"answer_tokens_per_s", s.answer_tokens_per_s},
              {"ttft_s", {{"p50", s.ttft_p50_s}, {"p90", s.ttft_p90_s}, {"p99", s.ttft_p99_s}}},
              {"tpot_s", {{"p50", s.tpot_p50_s}, {"p90", s.tpot_p90_s}, {"p99", s.tpot_p99_s}}},
              {"requests", requests}};
}

std::string Ms(double seconds) { return absl::StrFormat("%.1f", seconds * 1e3); }

int RunBenchServe(const LoadOptions& o, const std::string& json) {
  const absl::StatusOr<LoadResult> result = RunLoad(o);
  if (!result.ok()) return kNoCoordinator;
  const LoadSummary s = Summarise(*result, o.prompt_tokens);
  if (!json.empty()) {
    const absl::Status written = WriteText(json, JsonLine(ServeJson(o, s, *result, FactsOfThisHost())) + "\n");
    if (!written.ok()) return FailStatus(written, "");
  }
  if (json != "-") {
    std::printf("%d clients, prompts of %s tokens, answers of %s: %d answered, %d failed in %.2f s\n\n%s\n%s",
                o.clients, ShowCount(o.prompt_tokens).c_str(), ShowCount(o.answer_tokens).c_str(), s.answered, s.failed,
                s.seconds,
                ShowTable({{"", "P50 MS", "P90 MS", "P99 MS"},
                           {"time to first token", Ms(s.ttft_p50_s), Ms(s.ttft_p90_s), Ms(s.ttft_p99_s)},
                           {"time per output token", Ms(s.tpot_p50_s), Ms(s.tpot_p90_s), Ms(s.tpot_p99_s)}})
                    .c_str(),
                ShowTable({{"requests/s", ShowRate(s.requests_per_s)},
                           {"prompt tokens/s", ShowRate(s.prompt_tokens_per_s)},
                           {"answer tokens/s", ShowRate(s.answer_tokens_per_s)}})
                    .c_str());
  }
  if (s.failed == 0) return kOk;
  return Fail(kFailure, absl::StrCat(s.failed, " requests failed; ", result->failures.front()), "see: rondo status");
}

}  // namespace

void AddBenchServeCommand(CLI::App& bench, RunCommand* run) {
  auto o = std::make_shared<LoadOptions>();
  auto json = std::make_shared<std::string>();
  CLI::App* command = bench.add_subcommand(
      "serve",
      "Load a running coordinator: time to first token, time per output token, throughput\n\n"
      "Examples:\n"
      "  rondo bench serve --clients 4 --requests 32 --prompt 512 --answer 64\n"
      "  rondo bench serve --clients 1 --requests 8 --json serve.json\n\n"
      "Prompts are generated ids, each different; answers are forced, so that they have exactly the length asked for.");
  AddCoordinatorOption(*command, &o->coordinator);
  command->add_option("--clients", o->clients, "Requests at once")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--requests", o->requests, "Requests in all")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  // The ids are sent in the request, which takes at most 1 MiB: 4 bytes each at most.
  command->add_option("--prompt", o->prompt_tokens, "Tokens of each prompt")
      ->type_name("N")
      ->check(CLI::Range(1, 200000))
      ->capture_default_str();
  command->add_option("--answer", o->answer_tokens, "Tokens of each answer")
      ->type_name("N")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--deadline", o->deadline_s, "Seconds that one request may take")
      ->type_name("S")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  command->add_option("--seed", o->seed, "Of the generated prompts")->type_name("N")->capture_default_str();
  command->add_option("--json", *json, "Write all figures here; - is stdout, without the table")->type_name("FILE");
  command->callback([o, json, run] { *run = [o, json] { return RunBenchServe(*o, *json); }; });
}

}  // namespace rondo::cli
