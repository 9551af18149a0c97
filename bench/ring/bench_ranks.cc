#include "bench/ring/bench_ranks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string_view>
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

[[noreturn]] void Refuse(const std::string& what) {
  std::fprintf(stderr, "ring_bench: %s\n%s", what.c_str(), kUsage);
  std::exit(2);
}

[[noreturn]] void Help() {
  std::fputs(kUsage, stdout);
  std::exit(0);
}

std::vector<int> Numbers(const std::string& option, const std::string& text) {
  std::vector<int> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 1) {
      Refuse(option + ": '" + std::string(part) + "' is not a whole number from 1 to 2147483647");
    }
    numbers.push_back(number);
  }
  return numbers;
}

constexpr std::string_view kValueOptions[] = {"--tokens", "--workers", "--threads", "--rounds", "--heads", "--kv-type"};

// `name` is one of kValueOptions.
void TakeValue(const std::string& name, const std::string& value, BenchOptions* o) {
  if (name == "--kv-type") {
    const auto type = ParseKvType(value);
    if (!type) Refuse("--kv-type: '" + value + "' is not f32 or bf16");
    o->shape.kv_type = *type;
    return;
  }
  const std::vector<int> numbers = Numbers(name, value);
  if (name == "--workers") {
    o->workers = numbers;
  } else if (name == "--heads") {
    if (numbers.size() != 3 || numbers[0] % numbers[1] != 0) {
      Refuse("--heads: '" + value + "' is not Q,KV,DIM with Q a multiple of KV");
    }
    o->shape.q_heads = numbers[0];
    o->shape.kv_heads = numbers[1];
    o->shape.head_dim = numbers[2];
  } else if (numbers.size() != 1) {
    Refuse(name + ": '" + value + "' is not one number");
  } else if (name == "--tokens") {
    o->tokens = numbers[0];
  } else if (name == "--threads") {
    o->threads = numbers[0];
  } else {
    o->rounds = numbers[0];
  }
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
    } else if (name == "--help" || name == "-h") {
      Help();
    } else if (std::find(std::begin(kValueOptions), std::end(kValueOptions), name) == std::end(kValueOptions)) {
      Refuse("'" + name + "' is not an option");
    } else if (i + 1 == argc) {
      Refuse(name + " wants a value");
    } else {
      TakeValue(name, argv[++i], &o);
    }
  }
  o.shape.scale = 1 / std::sqrt(static_cast<float>(o.shape.head_dim));
  return o;
}

}  // namespace rondo
