// Attention throughput of one thread, every figure beside a limit measured in the same process: prefill against a loop
// of independent fused multiply-adds, decode against a loop that only reads. Usage: attention_bench [--json]
// [--kernels=NAME] [--quick] [--prefill | --decode | --reduction]; the last: what the fixed merge tree costs. Clocks
// drift and neighbours disturb: limit and kernel alternate, medians of 9.
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
#include "kernels/cpu/attention/tiled_attention.h"
#include "rondo/attention_kernels.h"
#include "rondo/visible.h"

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
    for (const NodeId id : DyadicNodes({0, BlocksFor(tokens)}, 0)) {
      storage.emplace_back(rows * s.q_heads * (s.head_dim + 2));
      float* o = storage.back().data();
      nodes.push_back({id, o, o + rows * s.q_heads * s.head_dim, o + rows * s.q_heads * (s.head_dim + 1)});
    }
  }
  void Attend(const AttentionKernels& kernels, ThreadPool& pool) const {
    kernels.Attend(shape, {q.data(), first_position, count}, run, mask, nodes, pool);
  }
  // Two products of head_dim multiply-adds for every query and key it sees.
  double Flops() const {
    double keys = 0;
    for (int64_t row = 0; row < count; ++row) {
      const KeyRange seen = VisibleKeys(mask, first_position + row);
      keys += static_cast<double>(seen.end - std::max<int64_t>(seen.begin, 0));
    }
    return 4.0 * shape.head_dim * shape.q_heads * keys;
  }

  AttentionShape shape;
  MaskSpec mask;
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
      std::printf("%-9s %-18s n %6lld  %d:%d heads of %3d  %-4s  %7.2f of %7.2f %s  %5.1f %%\n", kernel, what,
                  static_cast<long long>(n), s.q_heads, s.kv_heads, s.head_dim, type.c_str(), value, limit, unit,
                  100 * value / limit);
    }
    std::fflush(stdout);
  }

 private:
  bool json_;
};

void Prefill(const AttentionKernels& kernels, const char* name, int64_t n, const AttentionShape& shape,
             const MaskSpec& mask, Report& report) {
  ThreadPool pool(1);
  Setup setup(shape, n, n);
  setup.mask = mask;
  const double flops = setup.Flops();
  setup.Attend(kernels, pool);
  std::vector<double> rate, peak;
  for (int i = 0; i < kRepetitions; ++i) {
    peak.push_back(FmaGflops());
    rate.push_back(flops / Seconds([&] { setup.Attend(kernels, pool); }) * 1e-9);
  }
  report.Line(kernels.name().data(), name, n, shape, Median(rate), Median(peak), "GFLOP/s");
}

// The fixed tree's cost: the same kernel against itself with a merge that does nothing (and so gives wrong answers).
// Even a plain online softmax would rescale now and then.
void Reduction(const AttentionKernels& kernels, const attention::AttentionOps& ops, int64_t n,
               const AttentionShape& shape, Report& report) {
  attention::AttentionOps without = ops;
  without.merge_strips = [](float*, const float*, int) {};
  const attention::TiledAttention plain("plain", without);
  ThreadPool pool(1);
  const Setup setup(shape, n, n);
  setup.Attend(kernels, pool);
  setup.Attend(plain, pool);
  // Each against its neighbours in time, on both sides: the difference is smaller than what a neighbour's load does.
  std::vector<double> ratio;
  for (int i = 0; i < 3 * kRepetitions; ++i) {
    const double before = Seconds([&] { setup.Attend(plain, pool); });
    const double canonical = Seconds([&] { setup.Attend(kernels, pool); });
    const double after = Seconds([&] { setup.Attend(plain, pool); });
    ratio.push_back(2 * canonical / (before + after));
  }
  report.Line(kernels.name().data(), "canonical/unmerged", n, shape, Median(ratio), 1.0, "times");
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
  bool json = false, quick = false, prefill = true, decode = true, reduction = true;
  const AttentionKernels* kernels = PortableAttention();
  const attention::AttentionOps* ops = nullptr;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    kernels = Avx2Attention();
    ops = &attention::Avx2Ops();
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    kernels = Avx512Attention();
    ops = &attention::Avx512Ops();
  }
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--json") {
      json = true;
    } else if (arg == "--decode") {
      prefill = reduction = false;
    } else if (arg == "--prefill") {
      decode = reduction = false;
    } else if (arg == "--reduction") {
      prefill = decode = false;
    } else if (arg == "--quick") {
      quick = true;
    } else if (arg == "--kernels=portable") {
      kernels = PortableAttention();
      ops = nullptr;
    } else if (arg == "--kernels=avx2") {
      kernels = Avx2Attention();
      ops = &attention::Avx2Ops();
    } else {
      std::fprintf(
          stderr,
          "usage: attention_bench [--json] [--quick] [--prefill | --decode | --reduction] [--kernels=portable|avx2]\n");
      return 2;
    }
  }
  std::printf(json ? "{\"machine\":\"%s\",\"threads\":1}\n" : "machine: %s, one thread, its CPU time, medians of 9\n",
              CpuName().c_str());
  Report report(json);
  for (const KvType type : {KvType::kF32, KvType::kBf16}) {
    for (const int head_dim : {64, 128}) {
      const AttentionShape shape{8, 2, head_dim, type, 0.125f};
      if (ops != nullptr && reduction) Reduction(*kernels, *ops, 2048, shape, report);
      if (!prefill) continue;
      Prefill(*kernels, "prefill", 1024, shape, {}, report);
      if (!quick) Prefill(*kernels, "prefill", 8192, shape, {}, report);
    }
    if (!prefill) continue;
    for (const int head_dim : {80, 96, 256}) {
      Prefill(*kernels, "prefill", 2048, {8, 2, head_dim, type, 0.125f}, {}, report);
    }
    Prefill(*kernels, "window", 4096, {4, 1, 256, type, 0.125f}, {.window = 512}, report);
    Prefill(*kernels, "prefill", 2048, {32, 8, 128, type, 0.125f}, {}, report);
    AttentionShape capped{8, 2, 128, type, 0.125f};
    capped.score.softcap = 50;
    Prefill(*kernels, "soft cap", 2048, capped, {}, report);
  }
  if (!decode) return 0;
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
