// rondo bench scale: the same sequence on 1, 2, 4, ... workers: how the time falls, and that the bits do not change.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "cli/bench/commands.h"
#include "cli/bench/counts.h"
#include "cli/bench/host_facts.h"
#include "cli/bench/scale_bench.h"
#include "cli/bench/scale_plot.h"
#include "cli/bench/scale_table.h"
#include "cli/bench/trace_json.h"
#include "cli/exit_codes.h"
#include "cli/progress.h"

namespace rondo::cli {
namespace {

struct Options {
  ScaleOptions scale;
  std::string workers = "1,2,4";
  std::string tokens = "4k,16k,64k";
  std::string hosts_file, json, plot, trace;
  double link_gbit = 0;
  bool quiet = false;
};

absl::Status Complete(Options& o) {
  absl::StatusOr<std::vector<int64_t>> workers = ParseCounts("--workers", o.workers, 1, 4096);
  if (!workers.ok()) return workers.status();
  absl::StatusOr<std::vector<int64_t>> tokens = ParseCounts("--tokens", o.tokens, 1, int64_t{1} << 32);
  if (!tokens.ok()) return tokens.status();
  o.scale.workers = *std::move(workers);
  o.scale.tokens = *std::move(tokens);
  if (o.scale.bin.empty()) o.scale.bin = OwnFolder();
  if (o.hosts_file.empty()) return absl::OkStatus();
  std::ifstream file(o.hosts_file);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return absl::NotFoundError(absl::StrCat("--hosts: cannot read ", o.hosts_file));
  absl::StatusOr<std::vector<std::string>> hosts = ParseHosts(text);
  if (!hosts.ok()) return hosts.status();
  o.scale.hosts = *std::move(hosts);
  return absl::OkStatus();
}

std::string DescribeCell(const ScaleProgress& p, int repeat) {
  std::string line = absl::StrCat("cell ", p.done + 1, " of ", p.all, ": ", ShowTokens(p.tokens), " tokens, ",
                                  p.workers, p.workers == 1 ? " worker" : " workers");
  if (repeat > 1) absl::StrAppend(&line, ", round ", p.round + 1, " of ", repeat);
  if (p.left_s >= 0) absl::StrAppend(&line, absl::StrFormat(", about %.0f s left", p.left_s));
  return line;
}

absl::Status WriteFiles(const Options& o, const ScaleReport& report, const BenchFacts& facts) {
  if (!o.json.empty()) {
    if (absl::Status s = WriteText(o.json, JsonLine(ScaleJson(report, facts)) + "\n"); !s.ok()) return s;
  }
  if (!o.plot.empty()) {
    const bool page = o.plot.ends_with(".html") || o.plot.ends_with(".htm");
    if (absl::Status s = WriteText(o.plot, page ? ScaleHtml(report, facts) : ScaleSvg(report, facts)); !s.ok()) {
      return s;
    }
  }
  if (o.trace.empty()) return absl::OkStatus();
  const ScaleRow* row = TimelineRow(report);
  return WriteText(o.trace, TraceJson(row == nullptr ? report.rows.back().shown : row->shown));
}

int RunBenchScale(Options o) {
  if (absl::Status s = Complete(o); !s.ok()) return FailStatus(s, "see: rondo bench scale --help");
  if (access(absl::StrCat(o.scale.bin, "/scale_rank").c_str(), X_OK) != 0) {
    return Fail(kFailure, absl::StrCat("there is no scale_rank in ", o.scale.bin),
                "build the benchmarks (cmake -DRONDO_BENCH=ON), or name their folder with --bin");
  }
  const BenchFacts facts = FactsOfThisHost();
  ProgressLine line = ProgressLine::ForStderr(o.quiet);
  const absl::StatusOr<std::vector<CellRuns>> cells = RunScaleCells(o.scale, facts.cores, [&](const ScaleProgress& p) {
    line.Show(absl::StrCat(p.tokens, "/", p.workers), DescribeCell(p, o.scale.repeat), absl::Now());
  });
  line.Clear();
  if (!cells.ok()) return FailStatus(cells.status(), "run that command by itself to see all of it");
  const ScaleReport report = MakeReport(*cells, o.link_gbit * 1e9 / 8);
  if (absl::Status s = WriteFiles(o, report, facts); !s.ok()) return FailStatus(s, "");
  if (o.json != "-") {
    const std::string steps = ScaleStepTable(report);
    std::printf("%s, %d cores, %s; %s; medians of %d\n\n%s\n%s%s%s", facts.machine.c_str(), facts.cores,
                facts.date.c_str(), DescribeProblem(report).c_str(), o.scale.repeat, ScaleTable(report).c_str(),
                steps.c_str(), steps.empty() ? "" : "\n", ScaleFitLines(report).c_str());
  }
  if (!report.AllVerified()) {
    return Fail(kFailure, "not every cell gives the bits of one worker", "please report this with the --json file");
  }
  return kOk;
}

}  // namespace

void AddBenchScaleCommand(CLI::App& bench, RunCommand* run) {
  auto o = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "scale",
      "The same sequence on 1, 2, 4, ... workers: time, memory, bytes, and that the bits stay\n\n"
      "Examples:\n"
      "  rondo bench scale --workers 1,2,4 --tokens 4k,16k,64k\n"
      "  rondo bench scale --workers 1,2 --tokens 16k --heads 32/8x128 --plot scale.html --trace ring.json\n"
      "  rondo bench scale --workers 1,2,4 --tokens 2k,8k --model M.gguf --json scale.json\n"
      "  rondo bench scale --workers 1,3 --tokens 16k --hosts hosts.txt --link-gbit 1\n\n"
      "Attention alone over generated tensors, or with --model a prefill. The default shape is small (8/2x64): at "
      "64k\n"
      "tokens it is 4.4 TFLOP, a minute of one core; 32/8x128 is eight times that. Exits with 1 where a cell's output\n"
      "differs from one worker's.");
  ScaleOptions* s = &o->scale;
  command->add_option("--workers", o->workers, "Ring sizes; 1 is always run, for the bits")
      ->type_name("W,...")
      ->capture_default_str();
  command->add_option("--tokens", o->tokens, "Sequence lengths; k is 1,024")->type_name("N,...")->capture_default_str();
  command->add_option("--threads", s->threads, "Threads of each worker")
      ->type_name("T")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  CLI::Option* heads = command->add_option("--heads", s->heads, "Query heads / KV heads x head dimension")
                           ->type_name("Q/KVxD")
                           ->capture_default_str();
  command->add_option("--model", s->model, "Prefill of this GGUF file, in the place of attention alone")
      ->type_name("FILE")
      ->check(CLI::ExistingFile)
      ->excludes(heads);
  command->add_option("--strategy", s->strategy, "auto, pass-kv or pass-q")
      ->check(CLI::IsMember({"auto", "pass-kv", "pass-q"}))
      ->capture_default_str();
  command->add_option("--kv-type", s->kv_type, "f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command->add_option("--kernels", s->kernels, "Kernels to use: portable, avx2, avx512")->type_name("NAME");
  command->add_option("--repeat", s->repeat, "Runs of each cell; the table shows medians")
      ->type_name("R")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--json", o->json, "Write all figures here; - is stdout, without the tables")->type_name("FILE");
  command->add_option("--plot", o->plot, "Write a picture: .svg, or .html with the tables")->type_name("FILE");
  command->add_option("--trace", o->trace, "Write the ring's timeline for Perfetto or chrome://tracing")
      ->type_name("FILE");
  command->add_flag("--quiet", o->quiet, "No progress on stderr");
  command->add_option("--transport", s->transport, "mpi (a process each) or loopback (threads of one)")
      ->check(CLI::IsMember({"mpi", "loopback"}))
      ->capture_default_str();
  command->add_option("--mpirun", s->mpirun, "The mpirun to use")->type_name("PROGRAM")->capture_default_str();
  command->add_option("--bin", s->bin, "Folder of scale_rank, the same on all hosts; if not this program's")
      ->type_name("DIR");
  command->add_option("--hosts", o->hosts_file, "Run on these hosts, one a line: NAME [slots=N]")
      ->type_name("FILE")
      ->group("Several hosts");
  command->add_option("--agent", s->agent, "Program that reaches a host, in the place of ssh")
      ->type_name("PROGRAM")
      ->group("Several hosts");
  command->add_option("--network", s->network, "The hosts' network: an interface, or 10.0.0.0/24")
      ->type_name("NET")
      ->group("Several hosts");
  command->add_option("--link-gbit", o->link_gbit, "Rate of one link: compares the time with max(compute, transfer)")
      ->type_name("GBIT/S")
      ->check(CLI::PositiveNumber)
      ->group("Several hosts");
  command->callback([o, run] { *run = [o] { return RunBenchScale(*o); }; });
}

}  // namespace rondo::cli
