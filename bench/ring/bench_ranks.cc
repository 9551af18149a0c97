#include "bench/ring/bench_ranks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "worker/transport/loopback_transport.h"

namespace rondo {
namespace {

constexpr char kUsage[] =
    "ring_bench [--tokens N] [--workers W,...] [--json]           step times, and the waits of a prefill\n"
    "ring_bench --sweep [--tokens N] [--workers W]                both strategies over T / (T + P), and the selector\n"
    "ring_bench --decode [--tokens N] [--workers W,...]           a decode step\n"
    "options: --heads Q,KV,DIM (32,8,128)  --kv-type f32|bf16  --threads N  --rounds N\n"
    "Ranks are threads; under mpirun (options: see mpi_launch.h) they are its processes, and --workers is not used.\n";

[[noreturn]] void Usage() {
  std::fputs(kUsage, stderr);
  std::exit(2);
}

std::vector<int> Numbers(const std::string& text) {
  std::vector<int> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 1) Usage();
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void OnThreads(int ranks, const std::function<void(Transport&)>& work) {
  LoopbackHub hub(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank) transports.push_back(hub.Connect(rank));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { work(*transports[rank]); });
  for (std::thread& thread : threads) thread.join();
}

BenchOptions ParseBenchOptions(int argc, char** argv) {
  BenchOptions o;
  o.shape = {.q_heads = 32, .kv_heads = 8, .head_dim = 128, .kv_type = KvType::kBf16};
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--sweep") {
      o.sweep = true;
    } else if (name == "--decode") {
      o.decode = true;
    } else if (name == "--json") {
      o.json = true;
    } else if (i + 1 == argc) {
      Usage();
    } else if (const std::string value = argv[++i]; name == "--tokens") {
      o.tokens = Numbers(value).front();
    } else if (name == "--workers") {
      o.workers = Numbers(value);
    } else if (name == "--threads") {
      o.threads = Numbers(value).front();
    } else if (name == "--rounds") {
      o.rounds = Numbers(value).front();
    } else if (name == "--heads") {
      const std::vector<int> heads = Numbers(value);
      if (heads.size() != 3 || heads[0] % heads[1] != 0) Usage();
      o.shape.q_heads = heads[0];
      o.shape.kv_heads = heads[1];
      o.shape.head_dim = heads[2];
    } else if (const auto type = ParseKvType(value); name == "--kv-type" && type) {
      o.shape.kv_type = *type;
    } else {
      Usage();
    }
  }
  o.shape.scale = 1 / std::sqrt(static_cast<float>(o.shape.head_dim));
  return o;
}

}  // namespace rondo
