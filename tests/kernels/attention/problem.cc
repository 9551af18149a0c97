#include "tests/kernels/attention/problem.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/bf16.h"
#include "kernels/cpu/attention/factories.h"
#include "kernels/fold_nodes.h"
#include "kernels/ref/factories.h"

namespace rondo {

const std::vector<const AttentionKernels*>& TestedKernels() {
  static const std::vector<const AttentionKernels*> kernels = [] {
    std::vector<const AttentionKernels*> list = {PortableAttention()};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      list.push_back(Avx2Attention());
      list.push_back(WideAttention());
    } else {
      std::printf("SKIPPED: avx2 and wide, this CPU has no AVX2 and FMA\n");
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
      list.push_back(Avx512Attention());
    } else {
      std::printf("SKIPPED: avx512, this CPU has no AVX-512 F, BW, VL and DQ\n");
    }
    list.push_back(RefAttention());
    return list;
  }();
  return kernels;
}

void Problem::SetSlopes(std::vector<float> values) {
  slopes = std::make_shared<const std::vector<float>>(std::move(values));
  shape.score.alibi_slopes = slopes->data();
}

void Problem::SetSinks(std::vector<float> values) {
  sinks = std::make_shared<const std::vector<float>>(std::move(values));
  shape.score.sinks = sinks->data();
}

void Problem::SetSequences(std::vector<int64_t> values) {
  starts = std::make_shared<const std::vector<int64_t>>(std::move(values));
  mask.sequence_starts = *starts;
}

bool Problem::Sees(int64_t position, int64_t key) const {
  if (mask.causal && key > position) return false;
  if (mask.window > 0 && std::abs(position - key) >= mask.window) return false;
  if (starts == nullptr) return true;
  for (size_t i = 0; i + 1 < starts->size(); ++i) {
    const int64_t begin = (*starts)[i], end = (*starts)[i + 1];
    if (begin <= position && position < end) return begin <= key && key < end;
  }
  return false;
}

std::string Problem::Describe() const {
  const char* type = shape.kv_type == KvType::kBf16 ? " bf16" : " f32";
  return absl::StrCat(shape.q_heads, ":", shape.kv_heads, " heads of ", shape.head_dim, type, ", tokens ", tokens,
                      ", queries ", first_position, "+", count, mask.causal ? ", causal" : ", full", ", window ",
                      mask.window, ", sequences ", starts == nullptr ? "one" : absl::StrJoin(*starts, " "),
                      ", soft cap ", shape.score.softcap, slopes == nullptr ? "" : ", slopes",
                      sinks == nullptr ? "" : absl::StrCat(", sinks ", absl::StrJoin(*sinks, " ")));
}

void FillRandom(Problem* problem, Values values, std::mt19937* random) {
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> dice(0, 19);
  const auto draw = [&](bool is_value) -> float {
    const float x = normal(*random);
    const int roll = dice(*random);
    switch (values) {
      case Values::kOrdinary:
        return x;
      case Values::kSignedZeros:
        return roll < 6 ? 0.0f : roll < 14 ? -0.0f : x;
      case Values::kDenormals:
        return roll < 12 ? x * 1e-39f : roll < 15 ? x * 1e-30f : x;
      case Values::kHugeScores:
        return is_value ? (roll < 10 ? 0.0f : x) : x * (roll < 2 ? 1e4f : 60.0f);
      case Values::kNotFinite:
        if (roll > 0 || dice(*random) > 0) return x;
        if (dice(*random) < 10) return std::numeric_limits<float>::quiet_NaN();
        return x < 0 ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
    }
    return x;
  };
  const AttentionShape& shape = problem->shape;
  problem->q.resize(problem->count * shape.q_heads * shape.head_dim);
  problem->k.resize(problem->tokens * shape.kv_heads * shape.head_dim);
  problem->v.resize(problem->k.size());
  for (float& x : problem->q) x = draw(false);
  for (float& x : problem->k) x = draw(false);
  for (float& x : problem->v) x = draw(true);
  if (shape.kv_type == KvType::kBf16) {
    for (float& x : problem->k) x = Bf16ToFloat(FloatToBf16(x));
    for (float& x : problem->v) x = Bf16ToFloat(FloatToBf16(x));
  }
}

Blocks::Blocks(const Problem& problem) {
  const AttentionShape& shape = problem.shape;
  const size_t bytes = KvBlockBytes(shape);
  for (int64_t b = 0; b < BlocksFor(problem.tokens); ++b) {
    std::vector<float>& data = storage_.emplace_back(bytes / sizeof(float) + 16);
    const size_t misaligned = reinterpret_cast<uintptr_t>(data.data()) % 64;
    std::byte* block = reinterpret_cast<std::byte*>(data.data()) + (misaligned == 0 ? 0 : 64 - misaligned);
    std::memset(block, 0xff, bytes);  // NaN in both types
    const int64_t base = b * kBlockTokens;
    const int32_t tokens = static_cast<int32_t>(std::min(kBlockTokens, problem.tokens - base));
    for (int half = 0; half < 2; ++half) {
      const std::vector<float>& from = half == 0 ? problem.k : problem.v;
      for (int32_t h = 0; h < shape.kv_heads; ++h) {
        for (int32_t t = 0; t < tokens; ++t) {
          for (int32_t d = 0; d < shape.head_dim; ++d) {
            const float x = from[((base + t) * shape.kv_heads + h) * shape.head_dim + d];
            const size_t i = ((half * shape.kv_heads + h) * kBlockTokens + t) * shape.head_dim + d;
            if (shape.kv_type == KvType::kBf16) {
              reinterpret_cast<uint16_t*>(block)[i] = FloatToBf16(x);
            } else {
              reinterpret_cast<float*>(block)[i] = x;
            }
          }
        }
      }
    }
    blocks_.push_back({block, b, tokens});
  }
}

Nodes::Nodes(const AttentionShape& shape, int64_t count, BlockRange range)
    : pairs_(count * shape.q_heads), head_dim_(shape.head_dim) {
  for (const NodeId id : DyadicNodes(range, 0)) {
    std::vector<float>& data = storage_.emplace_back(pairs_ * (head_dim_ + 2), std::nanf(""));
    float* o = data.data();
    nodes_.push_back({id, o, o + pairs_ * head_dim_, o + pairs_ * (head_dim_ + 1)});
  }
}

std::vector<float> Nodes::Bits() const {
  std::vector<float> bits;
  for (const std::vector<float>& node : storage_) {
    for (const float x : node) bits.push_back(std::isnan(x) ? std::nanf("") : x);
  }
  return bits;
}

Nodes AttendRun(const AttentionKernels& kernels, const Problem& problem, int64_t begin, int64_t end,
                absl::Span<const KvBlock> run, ThreadPool& pool) {
  Nodes nodes(problem.shape, end - begin, {run.front().index, run.back().index + 1});
  const QueryRows queries{problem.q.data() + begin * problem.shape.q_heads * problem.shape.head_dim,
                          problem.first_position + begin, end - begin};
  kernels.Attend(problem.shape, queries, run, problem.mask, nodes.nodes(), pool);
  return nodes;
}

Answer Solve(const AttentionKernels& kernels, const Problem& problem, int64_t begin, int64_t end, const Blocks& blocks,
             ThreadPool& pool) {
  const int64_t pairs = (end - begin) * problem.shape.q_heads;
  Answer answer{std::vector<float>(pairs * problem.shape.head_dim, 0.0f),
                std::vector<float>(pairs, -std::numeric_limits<float>::infinity())};
  if (pairs == 0) return answer;
  if (blocks.all().empty()) {
    if (problem.sinks == nullptr) return answer;
    for (int64_t i = 0; i < pairs; ++i) answer.lse[i] = (*problem.sinks)[i % problem.shape.q_heads];
    return answer;
  }
  Nodes nodes = AttendRun(kernels, problem, begin, end, blocks.all(), pool);
  const PartialNode root = FoldNodes(kernels, problem.shape, end - begin, nodes.nodes(), pool);
  kernels.Finish(problem.shape, end - begin, root, answer.out.data(), answer.lse.data(), pool);
  return answer;
}

Exact Oracle(const Problem& problem) {
  const AttentionShape& s = problem.shape;
  Exact exact;
  for (int64_t row = 0; row < problem.count; ++row) {
    const int64_t position = problem.first_position + row;
    for (int32_t head = 0; head < s.q_heads; ++head) {
      const int32_t kv_head = head * s.kv_heads / s.q_heads;
      std::vector<std::pair<int64_t, double>> seen;
      double max = -std::numeric_limits<double>::infinity();
      for (int64_t key = 0; key < problem.tokens; ++key) {
        if (!problem.Sees(position, key)) continue;
        double score = 0;
        for (int32_t d = 0; d < s.head_dim; ++d) {
          score += double{problem.q[(row * s.q_heads + head) * s.head_dim + d]} *
                   double{problem.k[(key * s.kv_heads + kv_head) * s.head_dim + d]};
        }
        score *= s.scale;
        exact.largest_score = std::max(exact.largest_score, std::abs(score));
        if (s.score.softcap > 0) score = s.score.softcap * std::tanh(score / s.score.softcap);
        if (problem.slopes != nullptr) score -= (*problem.slopes)[head] * static_cast<double>(std::abs(position - key));
        exact.largest_score = std::max(exact.largest_score, std::abs(score));
        seen.emplace_back(key, score);
        max = std::max(max, seen.back().second);
      }
      double sum = 0;
      if (problem.sinks != nullptr) {
        max = std::max(max, double{(*problem.sinks)[head]});
        sum = std::exp((*problem.sinks)[head] - max);
      }
      std::vector<double> out(s.head_dim, 0.0);
      for (const auto& [key, score] : seen) {
        const double p = std::exp(score - max);
        sum += p;
        for (int32_t d = 0; d < s.head_dim; ++d) {
          out[d] += p * double{problem.v[(key * s.kv_heads + kv_head) * s.head_dim + d]};
        }
      }
      for (const double x : out) exact.out.push_back(seen.empty() ? 0.0 : x / sum);
      exact.lse.push_back(max + std::log(sum));
    }
  }
  return exact;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace rondo
