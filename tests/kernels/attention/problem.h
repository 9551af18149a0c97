// A random attention problem in canonical blocks, and running a kernel on all or part of it; used by the attention
// tests.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "rondo/attention_kernels.h"

namespace rondo {

// Kernels this CPU can run, portable first, ref last; what cannot run is printed once.
const std::vector<const AttentionKernels*>& TestedKernels();

enum class Values { kOrdinary, kSignedZeros, kDenormals, kHugeScores, kNotFinite };

struct Problem {
  AttentionShape shape;
  MaskSpec mask;
  int64_t tokens = 0;          // keys
  int64_t first_position = 0;  // of the queries
  int64_t count = 0;
  std::vector<float> q;     // [count, q_heads, head_dim]
  std::vector<float> k, v;  // [tokens, kv_heads, head_dim], as rounded to the KV type

  // Copies of a problem share what its shape and mask point to.
  void SetSlopes(std::vector<float> slopes);
  void SetSinks(std::vector<float> sinks);
  void SetSequences(std::vector<int64_t> starts);
  std::shared_ptr<const std::vector<float>> slopes, sinks;
  std::shared_ptr<const std::vector<int64_t>> starts;

  bool Sees(int64_t position, int64_t key) const;  // the mask in words, key by key

  std::string Describe() const;
};

void FillRandom(Problem* problem, Values values, std::mt19937* random);

// k and v as blocks; rows past the tokens hold NaN.
class Blocks {
 public:
  explicit Blocks(const Problem& problem);
  absl::Span<const KvBlock> all() const { return blocks_; }
  absl::Span<const KvBlock> run(int64_t begin, int64_t end) const { return all().subspan(begin, end - begin); }

 private:
  std::vector<std::vector<float>> storage_;
  std::vector<KvBlock> blocks_;
};

// Owned nodes, filled with NaN before a kernel writes them.
class Nodes {
 public:
  Nodes(const AttentionShape& shape, int64_t count, BlockRange range);
  absl::Span<PartialNode> nodes() { return absl::MakeSpan(nodes_); }
  // Every float: o of each node (any NaN as one NaN), then m, then l.
  std::vector<float> Bits() const;

 private:
  int64_t pairs_;
  int64_t head_dim_;
  std::vector<std::vector<float>> storage_;
  std::vector<PartialNode> nodes_;
};

// Nodes of `run` for queries [begin, end) of the problem.
Nodes AttendRun(const AttentionKernels& kernels, const Problem& problem, int64_t begin, int64_t end,
                absl::Span<const KvBlock> run, ThreadPool& pool);

struct Answer {
  std::vector<float> out;  // [count, q_heads, head_dim]
  std::vector<float> lse;  // [count, q_heads]
};
// The whole way for queries [begin, end): attend, fold, finish. No keys: zeros and -inf.
Answer Solve(const AttentionKernels& kernels, const Problem& problem, int64_t begin, int64_t end, const Blocks& blocks,
             ThreadPool& pool);

// The textbook in double, sharing no code with the kernels.
struct Exact {
  std::vector<double> out;
  std::vector<double> lse;
  double largest_score = 0;  // of those seen, before and after soft cap and bias
};
Exact Oracle(const Problem& problem);

bool SameBits(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace rondo
