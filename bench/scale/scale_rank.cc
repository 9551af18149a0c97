// One cell of the scaling benchmark: attention over generated tensors, or a model's prefill, on a ring of ranks. Rank 0
// prints one JSON object; `rondo bench scale` runs it and makes the tables.
//
//   mpirun $(options of mpi_launch.h) -np 4 scale_rank --tokens 16384 --heads 32/8x128
//   scale_rank --ranks 4 --tokens 16384 --model M.gguf        ranks as threads of one process
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <thread>

#include "absl/time/clock.h"
#include "bench/scale/cell.h"
#include "worker/transport/loopback_transport.h"
#include "worker/transport/mpi_launch.h"
#ifdef RONDO_BENCH_MPI
#include "worker/transport/mpi_transport.h"
#endif

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

Json Summary(const CellOptions& o, const KernelSet& kernels, const CellOutcome& outcome, std::vector<Json> ranks) {
  double seconds = 0, cpu = 0;
  for (const Json& rank : ranks) {
    seconds = std::max(seconds, rank["seconds"].get<double>());
    cpu += rank["cpu_seconds"].get<double>();
  }
  return Json{{"tokens", o.tokens},
              {"workers", ranks.size()},
              {"threads", o.threads},
              {"model", o.model},
              {"heads", outcome.shape},
              {"kv_type", std::string(Name(o.kv_type))},
              {"kernels", std::string(kernels.name)},
              {"transport", o.ranks > 0 ? "loopback" : "mpi"},
              {"strategy", outcome.strategy},
              {"digest", outcome.digest},
              {"attention_flops", outcome.flops},
              {"seconds", seconds},
              {"cpu_seconds", cpu},
              {"ranks", std::move(ranks)}};
}

absl::Status RunRank(const CellOptions& o, Transport& transport) {
  const absl::StatusOr<KernelSet> kernels = SelectKernels(o.kernels);
  if (!kernels.ok()) return kernels.status();
  ThreadPool pool(o.threads);
  const auto run = o.model.empty() ? RunTensorCell : RunModelCell;
  absl::StatusOr<CellOutcome> outcome = run(o, *kernels, transport, pool);
  if (!outcome.ok()) return outcome.status();
  outcome->record.host = HostName();
  // Ranks that are threads share one process: its numbers are said once.
  if (o.ranks > 0 && transport.rank() != 0) {
    outcome->record.cpu_seconds = 0;
    outcome->record.base_bytes = outcome->record.peak_bytes = 0;
  }
  absl::StatusOr<std::vector<Json>> ranks = GatherJson(transport, ToJson(outcome->record));
  if (!ranks.ok()) return ranks.status();
  if (transport.rank() == 0) {
    std::printf("%s\n", Summary(o, *kernels, *outcome, *std::move(ranks)).dump().c_str());
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

absl::Status RunLoopback(const CellOptions& o) {
  LoopbackHub hub(o.ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < o.ranks; ++rank) transports.push_back(hub.Connect(rank));
  std::vector<absl::Status> ended(o.ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < o.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ended[rank] = RunRank(o, *transports[rank]);
      if (!ended[rank].ok()) transports[rank]->Abort(ended[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : ended) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Run(const CellOptions& o) {
  if (o.ranks > 0) return RunLoopback(o);
#ifdef RONDO_BENCH_MPI
  absl::StatusOr<std::unique_ptr<MpiTransport>> transport = MpiTransport::Create();
  if (!transport.ok()) return transport.status();
  absl::Status ran = RunRank(o, **transport);
  if (ran.ok()) ran = (*transport)->Close(absl::Now() + absl::Seconds(30));
  if (!ran.ok()) {
    std::fprintf(stderr, "scale_rank: rank %d: %s\n", (*transport)->rank(), ran.ToString().c_str());
    HardExit(1);  // the peers' buffers may still be read
  }
  return ran;
#else
  return absl::FailedPreconditionError("built without MPI: use --ranks");
#endif
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  rondo::CellOptions o;
  std::string kv = "f32";
  CLI::App app("One cell of the scaling benchmark; run by rondo bench scale");
  app.add_option("--tokens", o.tokens, "tokens of the sequence")->check(CLI::Range(int64_t{1}, int64_t{1} << 32));
  app.add_option("--threads", o.threads, "threads of each rank")->check(CLI::Range(1, 1024));
  app.add_option("--ranks", o.ranks, "ranks as threads of this process, in the place of MPI")
      ->check(CLI::Range(1, 256));
  app.add_option("--heads", o.heads, "query heads / KV heads x head dimension");
  app.add_option("--strategy", o.strategy, "of attention alone")->check(CLI::IsMember({"auto", "pass-kv", "pass-q"}));
  app.add_option("--kv-type", kv, "KV type")->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--kernels", o.kernels, "kernels to use");
  app.add_option("--model", o.model, "prefill of this GGUF file, in the place of attention alone");
  app.add_option("--compute", o.compute, "compute mode of the model")->check(CLI::IsMember({"f32", "q8"}));
  app.add_option("--prefill-chunk", o.prefill_chunk, "tokens of a prefill step of the model; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 32));
  app.add_option("--seed", o.seed, "of the generated numbers");
  CLI11_PARSE(app, argc, argv);
  o.kv_type = *rondo::ParseKvType(kv);
  absl::Status status;
  try {
    status = rondo::Run(o);
  } catch (const std::exception& error) {  // std::bad_alloc
    status = absl::ResourceExhaustedError(error.what());
  }
  if (!status.ok()) std::fprintf(stderr, "scale_rank: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
