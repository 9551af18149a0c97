// Attention throughput of one thread, every figure beside a limit measured in the same process: prefill against a loop
// of independent fused multiply-adds, decode against a loop that only reads. Usage: attention_bench [--json]
// [--kernels=NAME] [--quick] [--decode]. Clocks drift and neighbours disturb: limit and kernel alternate, medians of 9.
#include <immintrin.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "base/fp_env.h"
#include "base/thread_pool.h"
#include "bench/attention/limits.h"
#include "kernels/cpu/attention/factories.h"
#include "rondo/attention_kernels.h"

namespace rondo {
namespace {

constexpr int kRepetitions = 9;

// CPU time of this thread: what other processes take of the core does not count.
double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double Seconds(const std::function<void()>& work) {
  const double start = Now();
  work();
  return Now() - start;
}

double Median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + x.size() / 2, x.end());
  return x[x.size() / 2];
}

// Huge pages where the kernel gives them: the KV arena asks for them too.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) std::abort();
    madvise(data_, bytes, MADV_HUGEPAGE);
  }
  ~Pages() { munmap(data_, bytes_); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_;
  size_t bytes_;
};

struct Setup {
  Setup(const AttentionShape& s, int64_t tokens, int64_t rows)
      : shape(s), count(rows), pages(BlocksFor(tokens) * KvBlockBytes(s)), q(rows * s.q_heads * s.head_dim) {
    std::minstd_rand random(1);
    std::uniform_real_distribution<float> uniform(-1.7f, 1.7f);
    std::vector<float> noise(4096 + 64);
    for (float& x : noise) x = uniform(random);
    for (size_t i = 0; i < q.size(); ++i) q[i] = noise[(i * 7 + i / 4096) % 4096];
    const size_t elements = KvBlockBytes(s) / ElementBytes(s.kv_type);
    for (int64_t b = 0; b < BlocksFor(tokens); ++b) {
      std::byte* data = pages.data() + b * KvBlockBytes(s);
      for (size_t i = 0; i < elements; ++i) {
        const float x = noise[(i + b * 131 + i / 4001) % 4096];
        if (s.kv_type == KvType::kBf16) {
          reinterpret_cast<uint16_t*>(data)[i] = FloatToBf16(x);
        } else {
          reinterpret_cast<float*>(data)[i] = x;
        }
      }
      run.push_back({data, b, static_cast<int32_t>(std::min(kBlockTokens, tokens - b * kBlockTokens))});
    }
    first_position = tokens - rows;
    for (const NodeId id : DyadicNodes({0, BlocksFor(tokens)})) {
      storage.emplace_back(rows * s.q_heads * (s.head_dim + 2));
      float* o = storage.back().data();
      nodes.push_back({id, o, o + rows * s.q_heads * s.head_dim, o + rows * s.q_heads * (s.head_dim + 1)});
    }
  }
  void Attend(const AttentionKernels& kernels, ThreadPool& pool) const {
    kernels.Attend(shape, {q.data(), first_position, count}, run, {}, nodes, pool);
  }

  AttentionShape shape;
  int64_t count;
  int64_t first_position = 0;
  Pages pages;
  std::vector<float> q;
  std::vector<KvBlock> run;
  std::vector<std::vector<float>> storage;
  std::vector<PartialNode> nodes;
};

class Report {
 public:
  explicit Report(bool json) : json_(json) {}
  void Line(const char* kernel, const char* what, int64_t n, const AttentionShape& s, double value, double limit,
            const char* unit) {
    const std::string type(Name(s.kv_type));
    if (json_) {
      std::printf(
          "{\"kernel\":\"%s\",\"case\":\"%s\",\"tokens\":%lld,\"q_heads\":%d,\"kv_heads\":%d,\"head_dim\":%d,"
          "\"kv\":\"%s\",\"value\":%.2f,\"limit\":%.2f,\"percent\":%.1f,\"unit\":\"%s\"}\n",
          kernel, what, static_cast<long long>(n), s.q_heads, s.kv_heads, s.head_dim, type.c_str(), value, limit,
          100 * value / limit, unit);
    } else {
      std::printf("%-9s %-8s n %6lld  %d:%d heads of %3d  %-4s  %7.2f of %7.2f %s  %5.1f %%\n", kernel, what,
                  static_cast<long long>(n), s.q_heads, s.kv_heads, s.head_dim, type.c_str(), value, limit, unit,
                  100 * value / limit);
    }
    std::fflush(stdout);
  }

 private:
  bool json_;
};

void Prefill(const AttentionKernels& kernels, int64_t n, int head_dim, KvType type, Report& report) {
  ThreadPool pool(1);
  const AttentionShape shape{8, 2, head_dim, type, 0.125f};
  const Setup setup(shape, n, n);
  const double flops = 2.0 * head_dim * shape.q_heads * static_cast<double>(n) * static_cast<double>(n + 1);
  setup.Attend(kernels, pool);
  std::vector<double> rate, peak;
  for (int i = 0; i < kRepetitions; ++i) {
    peak.push_back(FmaGflops());
    rate.push_back(flops / Seconds([&] { setup.Attend(kernels, pool); }) * 1e-9);
  }
  report.Line(kernels.name().data(), "prefill", n, shape, Median(rate), Median(peak), "GFLOP/s");
}

void Decode(const AttentionKernels& kernels, int64_t n, const AttentionShape& shape, Report& report) {
  ThreadPool pool(1);
  const Setup setup(shape, n, 1);
  const size_t bytes = setup.run.size() * KvBlockBytes(shape);
  setup.Attend(kernels, pool);
  std::vector<double> rate, limit;
  for (int i = 0; i < kRepetitions; ++i) {
    limit.push_back(bytes / Seconds([&] { ReadAll(setup.pages.data(), bytes); }) * 1e-9);
    rate.push_back(bytes / Seconds([&] { setup.Attend(kernels, pool); }) * 1e-9);
  }
  report.Line(kernels.name().data(), "decode", n, shape, Median(rate), Median(limit), "GB/s");
}

std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

int Main(int argc, char** argv) {
  bool json = false, quick = false, decode_only = false;
  const AttentionKernels* kernels = PortableAttention();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kernels = Avx2Attention();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    kernels = Avx512Attention();
  }
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--json") {
      json = true;
    } else if (arg == "--decode") {
      decode_only = true;
    } else if (arg == "--quick") {
      quick = true;
    } else if (arg == "--kernels=portable") {
      kernels = PortableAttention();
    } else if (arg == "--kernels=avx2") {
      kernels = Avx2Attention();
    } else {
      std::fprintf(stderr, "usage: attention_bench [--json] [--quick] [--decode] [--kernels=portable|avx2]\n");
      return 2;
    }
  }
  std::printf(json ? "{\"machine\":\"%s\",\"threads\":1}\n" : "machine: %s, one thread, its CPU time, medians of 9\n",
              CpuName().c_str());
  Report report(json);
  for (const KvType type : {KvType::kF32, KvType::kBf16}) {
    for (const int head_dim : {64, 128}) {
      if (decode_only) continue;
      Prefill(*kernels, 1024, head_dim, type, report);
      if (!quick) Prefill(*kernels, 8192, head_dim, type, report);
    }
  }
  for (const KvType type : {KvType::kF32, KvType::kBf16}) {
    const AttentionShape small{9, 3, 64, type, 0.125f}, large{32, 8, 128, type, 0.125f};
    Decode(*kernels, 32768, small, report);  // past the caches
    Decode(*kernels, 8192, large, report);
    if (!quick) Decode(*kernels, 65536, large, report);
  }
  return 0;
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) { return rondo::Main(argc, argv); }
