#include "worker/options.h"

#include <CLI/CLI.hpp>

#include "absl/strings/numbers.h"
#include "base/address.h"
#include "kernels/registry.h"

namespace rondo {
namespace {

constexpr char kExamples[] = R"(Examples:
  mpirun -np 4 rondo-worker --coordinator 127.0.0.1:7070 --model M.gguf
  rondo-worker --transport loopback --ranks 4 --model M.gguf     # four ranks as threads, without mpirun
  mpirun -np 4 rondo-worker --coordinator 127.0.0.1:7070         # attention jobs only
  rondo-worker --check-model --model M.gguf                      # validates the whole file
  mpirun -np 8 rondo-worker --device cuda --transport nccl --model M.gguf   # one rank a GPU

As root, or with more ranks than cores, mpirun needs: --allow-run-as-root --oversubscribe --bind-to none
)";

std::string CheckChunk(const std::string& text) {
  int64_t tokens = 0;
  if (text == "whole" || (absl::SimpleAtoi(text, &tokens) && tokens >= 1 && tokens <= (int64_t{1} << 30))) return {};
  return "must be whole or a number of tokens from 1 to 1073741824, not " + text;
}

std::string CheckDevice(const std::string& text) {
  const absl::StatusOr<DeviceRequest> request = ParseDevice(text);
  return request.ok() ? std::string() : std::string(request.status().message());
}

// Wrong is a name that there is not; one that this CPU cannot run fails later, as a missing file does.
std::string CheckKernels(const std::string& name) {
  const absl::Status status = SelectKernels(name).status();
  return absl::IsInvalidArgument(status) ? std::string(status.message()) : "";
}

}  // namespace

int ParseWorkerOptions(int argc, char** argv, WorkerOptions* options) {
  WorkerOptions& o = *options;
  CLI::App app(std::string(kExamples) + "\nOne rank of a ring: keeps its slice of the KV cache and computes with it.");
  app.set_version_flag("--version", RONDO_VERSION);
  std::string transport = "auto";
  std::string device = "auto";
  app.add_option("--coordinator", o.coordinator, "Where the coordinator listens")
      ->envname("RONDO_COORDINATOR")
      ->check(CheckAddress)
      ->capture_default_str();
  app.add_option("--model", o.model, "GGUF file; without one the ring takes attention jobs only");
  app.add_flag("--check-model", o.check_model, "Validate the file, print one line, exit 0 or 1");
  app.add_flag("--measure", o.measure,
               "Measure for some seconds what a rank can do, print JSON, exit (see rondo plan)");
  app.add_option(
         "--device", device,
         "Where a rank computes: cpu, cuda, cuda:INDEX (default: by its place on the machine), or auto: a GPU if "
         "there is one that can be used")
      ->check(CheckDevice)
      ->capture_default_str();
  app.add_option("--transport", transport,
                 "How ranks reach each other; auto: mpi on CPUs, on GPUs nccl, or cuda-ipc where ranks share GPUs")
      ->check(CLI::IsMember({"auto", "mpi", "loopback", "nccl", "cuda-ipc"}))
      ->capture_default_str();
  app.add_option("--ranks", o.ranks, "Ranks in this process (loopback only)")->check(CLI::Range(1, 64));
  app.add_option("--threads", o.threads, "Threads of one rank; default: the CPUs shared among the ranks here")
      ->check(CLI::Range(1, 1024));
  app.add_option("--kernels", o.kernels, "portable, avx2, avx512 or ref; default: the fastest this CPU has")
      ->check(CheckKernels);
  app.add_option("--compute", o.compute,
                 "On CPUs f32, or q8 (int8 activations; the default for quantised weights); on GPUs bf16 (weights and "
                 "activations in bf16, float32 sums)")
      ->check(CLI::IsMember({"f32", "q8", "bf16"}));
  app.add_option("--kv-type", o.kv_type,
                 "How keys and values are kept: f32 or bf16; default: bf16 with q8, f32 with f32")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--kv-memory", o.kv_memory_bytes,
                 "KV memory of one rank, e.g. 4GiB; default: half of the available memory, shared among the ranks here")
      ->transform(CLI::AsSizeValue(false));
  app.add_option(
         "--data-listen", o.data_listen,
         "HOST:PORT where this rank takes the tensors of attention jobs; clients must reach it. Port 0: a free one")
      ->capture_default_str();
  app.add_option("--prefill-chunk", o.prefill_chunk, "Tokens of a prompt computed at a time, or whole")
      ->check(CheckChunk)
      ->capture_default_str();
  std::string strategy = "auto";
  app.add_option("--strategy", strategy, "What goes round the ring in prefill; auto measures at start and chooses")
      ->check(CLI::IsMember({"auto", "pass-kv", "pass-q"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  o.device = *ParseDevice(device);
  o.transport = *ParseTransport(transport);
  o.strategy = *ParseRingStrategy(strategy);
  if ((o.check_model || o.measure) && o.model.empty()) {
    std::cerr << (o.check_model ? "--check-model" : "--measure") << " needs --model FILE\n";
    return 2;
  }
  if (const std::string wrong = CheckAddress(o.data_listen); !wrong.empty()) {
    std::cerr << "--data-listen: " << wrong << "\n";
    return 2;
  }
  if (o.transport != TransportKind::kLoopback && o.ranks != 1) {
    std::cerr << "--ranks is for --transport loopback; with MPI, mpirun -np says how many\n";
    return 2;
  }
  if (o.prefill_chunk != "whole" && !absl::SimpleAtoi(o.prefill_chunk, &o.prefill_chunk_tokens)) return 2;
  return -1;
}

}  // namespace rondo
