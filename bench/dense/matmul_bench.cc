// Speed of the dense kernels beside the machine's limits, measured alternately in the same run; medians of nine or
// more. One thread is timed by its CPU clock, several by the wall clock.
//
//   matmul_bench [--kernels portable|avx2|avx512] [--threads T] [--seconds S] [--only TEXT] [--json]
//
// Matmul: GFLOP/s (two operations a product, quantising the activations included) and percent of a peak of one core on
// registers: of fma in mode f32; in mode q8 of vpmaddubsw + vpmaddwd + vpaddd, and of vpmaddubsw + vpaddw, whose sums
// stay in i16 (with VNNI both are vpdpbusd). Few rows: GB/s of weights and percent of a plain read of the same bytes by
// as many threads.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "base/thread_pool.h"
#include "bench/dense/peaks.h"
#include "kernels/cpu/dense/factories.h"

namespace rondo {
namespace {

struct Case {
  WeightType type;
  ComputeMode mode;
  int64_t count, cols, rows;
};

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string CpuModel() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

// All threads read their share; one thread by its CPU clock, as the kernels.
double PoolReadRate(const std::byte* data, size_t bytes, ThreadPool& pool) {
  if (pool.threads() == 1) return ReadRate(data, bytes);
  const double begin = Seconds();
  const size_t share = bytes / pool.threads();
  pool.Run(pool.threads(), [&](int64_t task, int) { ReadRate(data + task * share, share); });
  return static_cast<double>(bytes) / (Seconds() - begin) / 1e9;
}

void Measure(const DenseKernels& kernels, const Case& c, double seconds, ThreadPool& pool, bool json) {
  const WeightTypeInfo& info = *FindWeightType(c.type);
  std::mt19937_64 random(1);
  WeightView weight{c.type, nullptr, c.rows, c.cols,
                    static_cast<size_t>(c.cols / info.block_elements * info.block_bytes)};
  const size_t bytes = weight.row_bytes * c.rows;
  AlignedArray<std::byte> data = MakeAligned<std::byte>(bytes + 256);
  // 0x2c2c: a half of about 0.06, and a small float; codes need no more variety for their speed.
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i % 2 == 0 ? 0x2c : 0x2c ^ (random() & 3));
  weight.data = data.get();
  std::vector<float> x(c.count * c.cols), y(c.count * c.rows);
  for (float& v : x) v = static_cast<float>(random() >> 40) / 16777216.0f - 0.5f;
  ActivationRows rows;
  std::vector<double> rate, peak, pair_peak;
  const double flop = 2.0 * static_cast<double>(c.count) * static_cast<double>(c.cols) * static_cast<double>(c.rows);
  const bool few = c.count <= 4, q8 = c.mode == ComputeMode::kQ8;
  const double end = Seconds() + seconds;
  for (int i = 0; i < 10 || Seconds() < end; ++i) {
    const double limit = few ? PoolReadRate(data.get(), bytes, pool)
                             : (q8 ? (c.type == WeightType::kQ8_0 ? SignedDotPeak() : DotPeak()) : FmaPeak());
    const double pair = few || !q8 ? 0 : PairPeak();
    const double begin = pool.threads() == 1 ? ThreadSeconds() : Seconds();
    kernels.PrepareRows(c.mode, x.data(), c.count, c.cols, &rows, pool);
    kernels.MatMul(weight, rows, y.data(), pool);
    const double elapsed = (pool.threads() == 1 ? ThreadSeconds() : Seconds()) - begin;
    if (i == 0) continue;  // page faults of the storage
    rate.push_back((few ? static_cast<double>(bytes) : flop) / elapsed / 1e9);
    peak.push_back(limit);
    pair_peak.push_back(pair);
  }
  if (json) {
    std::printf(
        R"({"type":"%s","compute":"%s","tokens":%lld,"inner":%lld,"rows":%lld,"value":%.2f,"unit":"%s","percent":%.1f,)"
        R"("limit":%.2f})"
        "\n",
        std::string(info.name).c_str(), std::string(Name(c.mode)).c_str(), static_cast<long long>(c.count),
        static_cast<long long>(c.cols), static_cast<long long>(c.rows), Median(rate), few ? "GB/s" : "GFLOP/s",
        100 * Median(rate) / Median(peak), Median(peak));
    std::fflush(stdout);
    return;
  }
  std::printf("%-5s %-3s %4lld x %5lld x %6lld  %7.1f %s  %5.1f %% of %.1f", std::string(info.name).c_str(),
              std::string(Name(c.mode)).c_str(), static_cast<long long>(c.count), static_cast<long long>(c.cols),
              static_cast<long long>(c.rows), Median(rate), few ? "GB/s   " : "GFLOP/s",
              100 * Median(rate) / Median(peak), Median(peak));
  if (few) {
    std::printf(" (read)\n");
  } else if (!q8) {
    std::printf(" (fma)\n");
  } else {
    std::printf(" (%smaddubs + madd + add)  %5.1f %% of %.1f (maddubs + add)\n",
                c.type == WeightType::kQ8_0 ? "sign + " : "", 100 * Median(rate) / Median(pair_peak),
                Median(pair_peak));
  }
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  std::string name = __builtin_cpu_supports("avx512f") ? "avx512" : "avx2";
  std::string only;
  int threads = 1;
  double seconds = 1;
  bool json = false;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--json") {
      json = true;
      --i;
      continue;
    }
    if (i + 1 == argc) break;
    if (flag == "--kernels") name = argv[i + 1];
    if (flag == "--threads") threads = std::atoi(argv[i + 1]);
    if (flag == "--seconds") seconds = std::atof(argv[i + 1]);
    if (flag == "--only") only = argv[i + 1];
  }
  const DenseKernels* kernels = name == "portable" ? PortableDense() : (name == "avx512" ? Avx512Dense() : Avx2Dense());
  ThreadPool pool(threads);
  if (!json) {
    std::printf("%s, kernels %s, %d thread%s; tokens x inner x rows\n", CpuModel().c_str(), name.c_str(), threads,
                threads == 1 ? "" : "s");
  }
  constexpr ComputeMode kF32 = ComputeMode::kF32, kQ8 = ComputeMode::kQ8;
  std::vector<Case> cases;
  for (WeightType type : {WeightType::kQ4_1, WeightType::kQ4_0, WeightType::kQ5_0, WeightType::kQ5_1, WeightType::kQ8_0,
                          WeightType::kQ4_K, WeightType::kQ5_K, WeightType::kQ6_K}) {
    cases.push_back({type, kQ8, 512, 4096, 4096});
  }
  for (WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16, WeightType::kQ4_1}) {
    cases.push_back({type, kF32, 512, 4096, 4096});
  }
  // SmolLM2-135M as its file has it: attention, MLP; the head is Q8_0.
  for (int64_t count : {512, 16, 1}) {
    for (ComputeMode mode : {kQ8, kF32}) {
      cases.push_back({WeightType::kQ4_1, mode, count, 576, 576});
      cases.push_back({WeightType::kQ4_1, mode, count, 576, 192});
      cases.push_back({WeightType::kQ4_1, mode, count, 576, 1536});
      cases.push_back({WeightType::kQ4_1, mode, count, 1536, 576});
      cases.push_back({WeightType::kQ8_0, mode, count == 512 ? 64 : count, 576, 49152});
    }
  }
  // One row on weights larger than the caches.
  for (WeightType type : {WeightType::kQ4_1, WeightType::kQ4_0, WeightType::kQ5_0, WeightType::kQ5_1, WeightType::kQ8_0,
                          WeightType::kQ4_K, WeightType::kQ5_K, WeightType::kQ6_K}) {
    cases.push_back({type, kQ8, 1, 4096, 40960});
  }
  cases.push_back({WeightType::kF32, kF32, 1, 4096, 8192});
  cases.push_back({WeightType::kBF16, kF32, 1, 4096, 16384});
  cases.push_back({WeightType::kQ4_1, kF32, 1, 4096, 40960});
  for (const Case& c : cases) {
    char label[96];
    std::snprintf(label, sizeof label, "%s %s %lldx%lldx%lld", std::string(FindWeightType(c.type)->name).c_str(),
                  std::string(Name(c.mode)).c_str(), static_cast<long long>(c.count), static_cast<long long>(c.cols),
                  static_cast<long long>(c.rows));
    if (std::strstr(label, only.c_str()) != nullptr) Measure(*kernels, c, seconds, pool, json);
  }
  return 0;
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) { return rondo::Main(argc, argv); }
