// rondo plan: what a job would take, before anybody waits for it.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "cli/bench/counts.h"
#include "cli/commands.h"
#include "cli/duration.h"
#include "cli/exit_codes.h"
#include "cli/json_out.h"
#include "cli/number_option.h"
#include "cli/plan/measure_ranks.h"
#include "cli/plan/shape_option.h"
#include "cli/progress.h"
#include "cli/show.h"
#include "model/gguf/llama_loader.h"

namespace rondo::cli {
namespace {

struct Options {
  UpOptions ranks;
  std::string shape;
  std::string kv_type;
  std::string compute;
  int threads = 0;
  std::string tokens_text;  // 8k, 10M
  int64_t tokens = 0;
  int64_t answer = 256;
  double rate = 0;         // FLOP/s of a rank
  double bandwidth = 0;    // bytes/s
  double memory_rate = 0;  // bytes/s
  double latency_us = 20;
  uint64_t memory_bytes = 0;
  bool json = false;
};

constexpr int kMostMeasuredRanks = 64;
constexpr int64_t kMostTokens = int64_t{1} << 40;
// Of arithmetic and of memory, a second. Beyond them lies no machine, and products that leave a double.
constexpr double kLeastRate = 1, kMostRate = 1e24, kMostLatencyUs = 1e12;
constexpr absl::Duration kMeasureAtMost = absl::Minutes(3);
constexpr absl::Duration kSilence = absl::Seconds(2);  // after it, people ask themselves whether anything happens

// What programs can still have, page cache included: MemAvailable. 0 when /proc cannot be read.
uint64_t MachineMemoryBytes() {
  std::ifstream info("/proc/meminfo");
  std::string name, unit;
  for (uint64_t kib = 0; info >> name >> kib >> unit;) {
    if (name == "MemAvailable:") return kib << 10;
  }
  return 0;
}

// Rates as given: one rate of arithmetic for everything, one of memory for weights and KV.
RankRates GivenRates(const Options& o, const CostShape& shape) {
  RankRates r;
  r.dense_flops = r.attention_flops = o.rate;
  r.link_bytes_per_s = o.bandwidth;
  r.link_latency_s = o.latency_us / 1e6;
  r.memory_bytes = o.memory_bytes;
  if (o.memory_rate > 0) {
    r.decode_dense_s = static_cast<double>(shape.weight_bytes) / o.memory_rate;
    r.kv_read_bytes_per_s = o.memory_rate;
  }
  return r;
}

// `context`: how many tokens the model was trained for; 0: not known.
absl::StatusOr<CostShape> ShapeOf(const Options& o, KvType kv_type, int64_t* context) {
  if (!o.shape.empty()) {
    absl::StatusOr<CostShape> shape = ParseShape(o.shape);
    if (shape.ok()) shape->kv_type = kv_type;
    return shape;
  }
  const auto file = GgufFile::Open(o.ranks.model);
  if (!file.ok()) return file.status();
  const absl::StatusOr<ModelConfig> config = LoadConfig(**file);
  if (!config.ok()) return config.status();
  *context = config->context;
  return ShapeOfModel(*config, std::filesystem::file_size(o.ranks.model), kv_type);
}

// The times above are pass-KV's. Without cached tokens pass-Q sends as many queries as there are keys, and float
// partials back, so it is not worth a thought before ranks have measured what a worker's --strategy auto decides by.
const char* PrefillStrategy(int world) { return world == 1 ? "local" : "pass-kv"; }
const char* DecodeStrategy(int world) { return world == 1 ? "local" : "exchange of partials"; }

bool BeyondContext(const Options& o, int64_t context) { return context > 0 && o.tokens + o.answer > context; }

Json PlanJson(const Options& o, const CostPlan& p, const RankRates& r, const std::string& source, int64_t context) {
  return Json{
      {"tokens", o.tokens},
      {"answer_tokens", o.answer},
      {"workers", o.ranks.workers},
      {"rates", source},
      {"ttft_s", p.ttft_s},
      {"prefill_tokens_per_s", static_cast<double>(o.tokens) / p.ttft_s},
      {"prefill_dense_s", p.prefill_dense_s},
      {"prefill_attention_s", p.prefill_attention_s},
      {"prefill_exposed_transfer_s", p.prefill_exposed_s},
      {"decode_tokens_per_s", p.tpot_s > 0 ? Json(1 / p.tpot_s) : Json()},
      {"decode_dense_s", p.decode_dense_s},
      {"decode_attention_s", p.decode_attention_s},
      {"decode_exchange_s", p.decode_exchange_s},
      {"strategy", {{"prefill", PrefillStrategy(o.ranks.workers)}, {"decode", DecodeStrategy(o.ranks.workers)}}},
      {"rank_bytes", p.rank_bytes},
      {"weight_bytes", p.weight_bytes},
      {"kv_bytes", p.kv_bytes},
      {"buffer_bytes", p.buffer_bytes},
      {"activation_bytes", p.activation_bytes},
      {"process_bytes", p.process_bytes},
      {"memory_bytes", r.memory_bytes},
      {"fits", p.fits},
      {"largest_prompt", p.largest_prompt > 0 ? Json(p.largest_prompt) : Json()},
      {"hidden_from_tokens_per_rank", p.hidden_from_tokens},
      {"context", context > 0 ? Json(context) : Json()},
      {"beyond_context", BeyondContext(o, context)}};
}

void PrintPlan(const Options& o, const CostPlan& p, const RankRates& r, const std::string& source, int64_t context) {
  std::printf("%s tokens on %s, %s more to answer; rates %s\n\n", ShowCount(o.tokens).c_str(),
              ShowWorkers(o.ranks.workers).c_str(), ShowCount(o.answer).c_str(), source.c_str());
  std::printf("first token   after %.3g s (%s tokens/s): dense %.3g s, attention %.3g s, transfers not hidden %.3g s\n",
              p.ttft_s, ShowRate(static_cast<double>(o.tokens) / p.ttft_s).c_str(), p.prefill_dense_s,
              p.prefill_attention_s, p.prefill_exposed_s);
  if (p.tpot_s > 0) {
    std::printf("then          %s tokens/s: dense %.3g ms, attention %.3g ms, exchange %.3g ms a token\n",
                ShowRate(1 / p.tpot_s).c_str(), 1e3 * p.decode_dense_s, 1e3 * p.decode_attention_s,
                1e3 * p.decode_exchange_s);
  } else {
    std::puts("then          not known without --memory-rate");
  }
  std::printf("strategy      prefill %s, decode %s\n", PrefillStrategy(o.ranks.workers),
              DecodeStrategy(o.ranks.workers));
  std::printf("memory        %s a rank: weights %s, KV %s, ring buffers %s, activations %s, the process %s\n",
              ShowBytes(p.rank_bytes).c_str(), ShowBytes(p.weight_bytes).c_str(), ShowBytes(p.kv_bytes).c_str(),
              ShowBytes(p.buffer_bytes).c_str(), ShowBytes(p.activation_bytes).c_str(),
              ShowBytes(p.process_bytes).c_str());
  if (r.memory_bytes > 0) {
    std::printf("              %s in %s; the longest prompt that fits has %s tokens\n",
                p.fits ? "fits" : "DOES NOT FIT", ShowBytes(r.memory_bytes).c_str(),
                ShowCount(p.largest_prompt).c_str());
  }
  if (o.ranks.workers > 1 && p.hidden_from_tokens <= static_cast<double>(kMostTokens)) {
    std::printf("transfers     are hidden from about %s new tokens a rank on\n",
                ShowCount(static_cast<uint64_t>(p.hidden_from_tokens)).c_str());
  } else if (o.ranks.workers > 1) {
    std::puts("transfers     are never hidden: the links are too slow for such ranks");
  }
  if (BeyondContext(o, context)) {
    std::printf("context       the model was trained for %s tokens: beyond them, jobs want --beyond-context\n",
                ShowCount(context).c_str());
  }
}

int RunPlan(Options o) {
  const absl::StatusOr<std::vector<int64_t>> tokens = ParseCounts("--tokens", o.tokens_text, 1, kMostTokens);
  if (!tokens.ok()) return FailStatus(tokens.status(), "");
  if (tokens->size() != 1) return Fail(kUsage, "--tokens: one number", "for tables of many, see: rondo bench scale");
  o.tokens = tokens->front();
  const bool given = o.rate > 0;
  if (!given && (o.bandwidth > 0 || o.memory_rate > 0)) {
    return Fail(kUsage, "--bandwidth and --memory-rate describe a cluster, and want its --rate",
                "leave them out to measure this machine");
  }
  if (given && !o.ranks.worker_arguments.empty() && (o.threads > 0 || !o.compute.empty())) {
    return Fail(kUsage, "--threads and --compute are for measuring, which --rate replaces",
                "leave out one or the other");
  }
  if (given != (o.bandwidth > 0) && o.ranks.workers > 1) {
    return Fail(kUsage, "--rate and --bandwidth go together", "give both, or neither to measure this machine");
  }
  if (!given && (!o.shape.empty() || o.ranks.workers > kMostMeasuredRanks)) {
    return Fail(kUsage,
                o.shape.empty()
                    ? absl::StrCat(o.ranks.workers, " workers: at most ", kMostMeasuredRanks, " are measured here")
                    : std::string("--shape has no weights to measure with"),
                "give the cluster's --rate and --bandwidth");
  }
  std::string source = absl::StrFormat("as given: %.4g FLOP/s a rank, links of %.4g bytes/s", o.rate, o.bandwidth);
  MeasuredRanks measured;
  if (!given) {
    o.ranks.model = std::filesystem::absolute(o.ranks.model).string();
    if (o.ranks.bin.empty()) o.ranks.bin = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
    const std::string what = absl::StrCat("measuring ", ShowWorkers(o.ranks.workers), " on this machine");
    ProgressLine progress = ProgressLine::ForStderr(false);
    progress.Note(absl::StrCat(what, ", some seconds"));
    absl::StatusOr<MeasuredRanks> ranks = MeasureRanks(o.ranks, kMeasureAtMost, [&](absl::Duration passed) {
      if (passed < kSilence) return;
      progress.Show(
          "measure",
          absl::StrCat(what, ": ", ShowDuration(passed), " so far, ", ShowDuration(kMeasureAtMost), " at most"),
          absl::Now());
    });
    progress.Clear();
    if (!ranks.ok()) return FailStatus(ranks.status(), "see: rondo-worker --measure --help");
    measured = *ranks;
    o.kv_type = measured.kv_type;
    measured.rates.memory_bytes = o.memory_bytes > 0 ? o.memory_bytes : MachineMemoryBytes() / o.ranks.workers;
    measured.rates.shared_weight_ranks = o.ranks.workers;
    source = absl::StrFormat("measured here: %s, %d threads a rank, compute %s, KV %s", measured.kernels,
                             measured.threads, measured.compute, measured.kv_type);
  }
  int64_t context = 0;
  const absl::StatusOr<CostShape> shape = ShapeOf(o, ParseKvType(o.kv_type).value_or(KvType::kBf16), &context);
  if (!shape.ok()) return FailStatus(shape.status(), "");
  const RankRates rates = given ? GivenRates(o, *shape) : measured.rates;
  const CostPlan plan =
      PlanCost(*shape, {.prompt_tokens = o.tokens, .answer_tokens = o.answer, .world = o.ranks.workers}, rates);
  if (o.json) return PrintJson(PlanJson(o, plan, rates, source, context)) ? kOk : kFailure;
  PrintPlan(o, plan, rates, source, context);
  return kOk;
}

}  // namespace

void AddPlanCommand(CLI::App& app, RunCommand* run) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "Predict time and memory of a job: measured on this machine, or for a cluster that is described\n\n"
      "Examples:\n"
      "  rondo plan --model M.gguf --tokens 8k --workers 2\n"
      "  rondo plan --shape layers=126,embedding=16384,feed_forward=53248,heads=128/8x128,vocab=128256,weight_bits=8 "
      "\\\n"
      "    --tokens 10M --workers 128 --rate 4e15 --bandwidth 400e9 --memory-rate 2.6e13 --memory 640GB  # 8 GPUs "
      "each");
  auto* model = command->add_option("--model", o->ranks.model, "The model, a GGUF file")
                    ->type_name("FILE")
                    ->check(CLI::ExistingFile);
  command->add_option("--shape", o->shape, "Instead of --model: the sizes, as in the example")
      ->type_name("SIZES")
      ->excludes(model);
  command->add_option("--tokens", o->tokens_text, "Tokens of the prompt, e.g. 8k (8,192) or 10M")
      ->type_name("N")
      ->required();
  command->add_option("--answer", o->answer, "Tokens of the answer")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  command->add_option("--workers", o->ranks.workers, "Ranks of the ring")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--rate", o->rate, "FLOP/s that a rank reaches; with it nothing is measured")
      ->type_name("C")
      ->check(Between(kLeastRate, kMostRate));
  command->add_option("--bandwidth", o->bandwidth, "Bytes/s between neighbours, one way")
      ->type_name("BW")
      ->check(Between(kLeastRate, kMostRate));
  command->add_option("--latency-us", o->latency_us, "Of one exchange, with --rate")
      ->type_name("US")
      ->check(Between(0.0, kMostLatencyUs))
      ->capture_default_str();
  command
      ->add_option("--memory-rate", o->memory_rate, "Bytes/s at which a rank reads its memory, with --rate; for decode")
      ->type_name("B")
      ->check(Between(kLeastRate, kMostRate));
  command->add_option("--memory", o->memory_bytes, "Memory of one rank, e.g. 80GB; measured: this machine's, shared")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(false));
  command->add_option("--kv-type", o->kv_type, "f32 or bf16")->type_name("TYPE")->check(CLI::IsMember({"f32", "bf16"}));
  command->add_option("--compute", o->compute, "f32 or q8, on GPUs bf16, when measured")
      ->type_name("MODE")
      ->check(CLI::IsMember({"f32", "q8", "bf16"}));
  command->add_option("--threads", o->threads, "Threads of each rank, when measured")
      ->type_name("T")
      ->check(CLI::Range(1, 1024));
  command->add_option("--transport", o->ranks.transport, "How measured ranks talk, as for rondo up")
      ->check(CLI::IsMember({"auto", "mpi", "loopback", "nccl", "cuda-ipc"}))
      ->capture_default_str();
  command->add_flag("--json", o->json, "Print one JSON object");
  command->callback([o, run] {
    if (o->ranks.model.empty() && o->shape.empty()) throw CLI::RequiredError("--model or --shape");
    std::vector<std::string>& to = o->ranks.worker_arguments;
    if (!o->kv_type.empty()) to.insert(to.end(), {"--kv-type", o->kv_type});
    if (!o->compute.empty()) to.insert(to.end(), {"--compute", o->compute});
    if (o->threads > 0) to.insert(to.end(), {"--threads", absl::StrCat(o->threads)});
    *run = [o] { return RunPlan(*o); };
  });
}

}  // namespace rondo::cli
