// rondo bench attention, matmul, decode, ring: run the measuring programs that lie beside this one.
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/bench/commands.h"
#include "cli/bench/host_facts.h"
#include "cli/bench/run_program.h"
#include "cli/exit_codes.h"
#include "cli/json_out.h"
#include "worker/transport/mpi_launch.h"

namespace rondo::cli {
namespace {

struct Options {
  std::string json, bin, model;
  std::string mpirun = "mpirun";
  int workers = 4;
  std::vector<std::string> more;  // passed on
};

using Command = std::vector<std::string>;

// The object that a program's JSON lines make: {"benchmark", facts, "rows": [...]}.
absl::StatusOr<Json> CollectRows(const std::string& name, const std::string& lines, const BenchFacts& facts) {
  Json rows = Json::array();
  for (absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    Json row = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    if (!row.is_object()) return absl::InternalError(absl::StrCat(name, " printed what is no JSON object: ", line));
    rows.push_back(std::move(row));
  }
  return Json{{"benchmark", name},  {"machine", facts.machine}, {"cores", facts.cores},
              {"date", facts.date}, {"command", facts.command}, {"rows", rows}};
}

int RunMeasuring(const std::string& name, const Options& o, const std::vector<Command>& commands) {
  std::string lines;
  for (Command command : commands) {
    if (o.json.empty()) {
      const absl::StatusOr<int> code = RunProgramHere(command);
      if (!code.ok()) return FailStatus(code.status(), "build the benchmarks (cmake -DRONDO_BENCH=ON)");
      if (*code != 0) return Fail(kFailure, absl::StrCat(command.front(), " exited with ", *code), "");
      continue;
    }
    command.push_back("--json");
    const absl::StatusOr<ProgramOutput> output = RunProgram(command);
    if (!output.ok()) return FailStatus(output.status(), "build the benchmarks (cmake -DRONDO_BENCH=ON)");
    if (output->exit_code != 0) {
      return Fail(kFailure, absl::StrCat(command.front(), " exited with ", output->exit_code), LastWords(output->err));
    }
    lines += output->out;
  }
  if (o.json.empty()) return kOk;
  const absl::StatusOr<Json> all = CollectRows(name, lines, FactsOfThisHost());
  if (!all.ok()) return FailStatus(all.status(), "please report this");
  const absl::Status written = WriteText(o.json, JsonLine(*all) + "\n");
  return written.ok() ? kOk : FailStatus(written, "");
}

Command WithMore(Command command, const Options& o) {
  command.insert(command.end(), o.more.begin(), o.more.end());
  return command;
}

std::vector<Command> RingCommands(const Options& o) {
  Command command = {o.mpirun, "-np", absl::StrCat(o.workers)};
  for (const std::string& word : RecommendedMpirunArgs()) command.push_back(word);
  command.push_back(absl::StrCat(o.bin, "/ring_bench"));
  return {WithMore(command, o)};
}

std::vector<Command> DecodeCommands(const Options& o) {
  std::vector<Command> commands = {WithMore({absl::StrCat(o.bin, "/attention_bench"), "--decode"}, o)};
  if (!o.model.empty()) commands.push_back({absl::StrCat(o.bin, "/local_bench"), "--model", o.model});
  return commands;
}

using MakeCommands = std::vector<Command> (*)(const Options&);

CLI::App* Add(CLI::App& bench, RunCommand* run, const std::string& name, const std::string& what, MakeCommands make,
              const std::shared_ptr<Options>& o) {
  CLI::App* command = bench.add_subcommand(
      name, absl::StrCat(what, "\n\nExamples:\n  rondo bench ", name, "\n  rondo bench ", name, " --json ", name,
                         ".json\n\nWords after -- go to the measuring program."));
  command->add_option("--json", o->json, "Write the figures here in the place of the table; - is stdout")
      ->type_name("FILE");
  command->add_option("--bin", o->bin, "Folder of the measuring programs, if not this program's")->type_name("DIR");
  command->add_option("more", o->more, "Passed on")->type_name("WORDS");
  command->callback([o, run, name, make] {
    *run = [o, name, make] {
      if (o->bin.empty()) o->bin = OwnFolder();
      return RunMeasuring(name, *o, make(*o));
    };
  });
  return command;
}

}  // namespace

void AddBenchProgramCommands(CLI::App& bench, RunCommand* run) {
  Add(
      bench, run, "attention", "Attention of one core beside the peak of its arithmetic",
      [](const Options& o) -> std::vector<Command> { return {WithMore({absl::StrCat(o.bin, "/attention_bench")}, o)}; },
      std::make_shared<Options>());
  Add(
      bench, run, "matmul", "Matrix products of one core beside the peak of the instructions they use",
      [](const Options& o) -> std::vector<Command> { return {WithMore({absl::StrCat(o.bin, "/matmul_bench")}, o)}; },
      std::make_shared<Options>());
  auto decode = std::make_shared<Options>();
  Add(bench, run, "decode", "Decode attention beside the memory's read rate, and a model's tokens/s", DecodeCommands,
      decode)
      ->add_option("--model", decode->model, "Also prefill and decode with this GGUF file")
      ->type_name("FILE");
  auto ring = std::make_shared<Options>();
  CLI::App* command =
      Add(bench, run, "ring", "Ring steps by message size, the exchange of a decode step, exposed waits", RingCommands,
          ring);
  command->add_option("--workers", ring->workers, "Ranks of the ring")
      ->type_name("W")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--mpirun", ring->mpirun, "The mpirun to use")->type_name("PROGRAM")->capture_default_str();
}

}  // namespace rondo::cli
