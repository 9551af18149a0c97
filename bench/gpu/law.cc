// The law on the GPU: the bits of a row depend on the row and its keys alone, not on how many ranks hold the keys, in
// which order their nodes arrive, or how rows are cut into chunks.
#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu/lines.h"
#include "bench/gpu/run_attention.h"
#include "bench/gpu/run_decode.h"
#include "bench/gpu/sections.h"

namespace rondo::gpu_check {
namespace {

struct Bits {
  std::vector<float> out, lse;
};

int64_t Differences(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return static_cast<int64_t>(std::max(a.size(), b.size()));
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    // NaN is what was never written, and never right.
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]) || a[i] != a[i]) ++count;
  }
  return count;
}

int64_t Differences(const std::vector<Node>& a, const std::vector<Node>& b) {
  if (a.size() != b.size()) return static_cast<int64_t>(std::max(a.size(), b.size()));
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    count += Differences(a[i].o, b[i].o) + Differences(a[i].m, b[i].m) + Differences(a[i].l, b[i].l);
  }
  return count;
}

void SayEqual(const std::string& kernel, const Shape& shape, const std::string& what, int64_t different) {
  Line("check")
      .Text("kernel", kernel)
      .Text("case", shape.Words() + ": " + what)
      .Bool("pass", different == 0)
      .Count("different", different)
      .Say();
}

// All rows, finished, in launches of `chunk` rows.
Bits InChunks(const AttentionKernel& kernel, const Problem& problem, int64_t chunk) {
  const Shape& shape = problem.shape();
  const FinishedRows rows(shape, true);
  for (int64_t begin = 0; begin < shape.rows; begin += chunk) {
    const int64_t end = std::min(begin + chunk, shape.rows);
    cuda::AttentionArgs args = problem.Args(begin, end, 0, problem.blocks());
    args.output = rows.Args();
    args.output.out = rows.out_float.get() + begin * args.output.row_stride;
    args.output.lse += begin * args.output.lse_row_stride;
    Launch(kernel, args, shape.head_dim).Finish();
  }
  return {rows.out_float.ToHost(), rows.lse.ToHost()};
}

// `ranks` contiguous runs of blocks, as equal as may be.
std::vector<BlockRange> Shards(int64_t blocks, int ranks) {
  std::vector<BlockRange> shards;
  for (int r = 0; r < ranks; ++r) shards.push_back({blocks * r / ranks, blocks * (r + 1) / ranks});
  return shards;
}

void CheckShards(const AttentionKernel& kernel, const Problem& problem, const Bits& whole) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    std::vector<Node> nodes;
    for (const BlockRange& shard : Shards(problem.blocks(), ranks)) {
      if (shard.empty()) continue;
      for (Node& node : AttendNodes(kernel, problem, 0, problem.shape().rows, shard)) nodes.push_back(std::move(node));
    }
    std::mt19937_64 random(static_cast<uint64_t>(ranks));
    int64_t different = 0;
    for (int order = 0; order < 4; ++order) {
      different += Differences(whole.out, FinishedOut(FoldToRoot(nodes)));
      std::shuffle(nodes.begin(), nodes.end(), random);
    }
    SayEqual(kernel.name, problem.shape(), std::to_string(ranks) + " ranks, 4 orders of arrival", different);
  }
}

std::vector<Node> DecodeNodes(const Problem& problem, int64_t begin, int64_t end, BlockRange blocks) {
  const NodeMemory nodes(problem.shape(), end - begin, blocks);
  Decode decode(problem, begin, end, blocks);
  decode.NodesInto({&nodes});
  decode.Finish();
  return nodes.ToHost();
}

// Decode has blocks of its own: its rows all at once, one alone, and over ranks that each hold some of the keys.
void CheckDecode(const Problem& problem) {
  const char* const kName = "sm80 decode";
  const Shape& shape = problem.shape();
  const FinishedRows rows(shape, true), last(shape, true);
  Decode all(problem, 0, shape.rows);
  all.FinishInto({&rows});
  all.Finish();
  const std::vector<float> whole = rows.out_float.ToHost();

  Decode one(problem, shape.rows - 1, shape.rows);
  one.FinishInto({&last});
  one.Finish();
  const auto row = static_cast<int64_t>(shape.q_heads) * shape.head_dim;
  SayEqual(kName, shape, "the last row alone",
           Differences({whole.end() - row, whole.end()}, last.out_float.ToHost(0, static_cast<size_t>(row))));

  for (const int ranks : {1, 2, 3, 4, 8}) {
    std::vector<Node> nodes;
    for (const BlockRange& shard : Shards(DecodeBlocks(problem).size(), ranks)) {
      if (shard.empty()) continue;
      for (Node& node : DecodeNodes(problem, 0, shape.rows, shard)) nodes.push_back(std::move(node));
    }
    std::shuffle(nodes.begin(), nodes.end(), std::mt19937_64(static_cast<uint64_t>(ranks)));
    SayEqual(kName, shape, std::to_string(ranks) + " ranks",
             Differences(whole, FinishedOut(FoldToRoot(std::move(nodes)))));
  }
}

// The kernels that merge and finish nodes do what their definition says.
void CheckNodes(const AttentionKernel& kernel, const Problem& problem, const Bits& whole) {
  const Shape& shape = problem.shape();
  const int64_t half = 8;  // blocks of a complete subtree
  if (problem.blocks() <= half || problem.blocks() > half + 1) return;
  std::vector<Node> left = AttendNodes(kernel, problem, 0, shape.rows, {0, half});
  const std::vector<Node> right = AttendNodes(kernel, problem, 0, shape.rows, {half, half + 1});
  NodeMemory left_memory(shape, shape.rows, BlockRange{0, half}),
      right_memory(shape, shape.rows, BlockRange{half, half + 1});
  left_memory.FromHost(left);
  right_memory.FromHost(right);
  std::string wrong = LaunchMerge(left_memory.Args(), right_memory.Args(), shape.rows, shape.q_heads, shape.head_dim);
  if (!wrong.empty()) Fail(wrong);
  RequireFinished("merge of nodes");
  Merge(&left.front(), right.front());
  SayEqual(kernel.name, shape, "merged nodes", Differences(left, left_memory.ToHost()));

  const FinishedRows rows(shape, true);
  wrong = LaunchFinish(left_memory.Args(), rows.Args(), shape.rows, shape.q_heads, shape.head_dim);
  if (!wrong.empty()) Fail(wrong);
  RequireFinished("finish of nodes");
  SayEqual(kernel.name, shape, "finished nodes",
           Differences(whole.out, rows.out_float.ToHost()) + Differences(whole.lse, rows.lse.ToHost()));
}

void CheckShape(const AttentionKernel& kernel, const Shape& shape) {
  const Problem problem(shape, 7);
  const Bits whole = InChunks(kernel, problem, shape.rows);
  const Bits again = InChunks(kernel, problem, shape.rows);
  SayEqual(kernel.name, shape, "two runs", Differences(whole.out, again.out) + Differences(whole.lse, again.lse));
  for (const int64_t chunk : {1, 17, 64, 100, 128}) {
    const Bits cut = InChunks(kernel, problem, chunk);
    SayEqual(kernel.name, shape, "chunks of " + std::to_string(chunk),
             Differences(whole.out, cut.out) + Differences(whole.lse, cut.lse));
  }
  CheckShards(kernel, problem, whole);
  CheckNodes(kernel, problem, whole);
}

}  // namespace

void CheckLaw() {
  const int64_t block = BlockTokens();
  const int64_t tokens = 8 * block + block * 3 / 10;  // nine blocks, the last one ragged
  // Of few rows, as steps have them.
  for (const int head_dim : DecodeHeadDims()) {
    Shape shape{.head_dim = head_dim, .q_heads = 8, .kv_heads = 2, .rows = 5, .tokens = tokens};
    shape.first_position = tokens - shape.rows;
    CheckDecode(Problem(shape, 8));
    shape.mask = {.causal = true, .window = 3 * block};
    CheckDecode(Problem(shape, 9));
    shape.mask = {};
    shape.first_position = 3 * DecodeBlockTokens() - 2;  // some rows see a block that others do not
    CheckDecode(Problem(shape, 10));
  }
  for (const AttentionKernel& kernel : PrefillKernels()) {
    for (const int head_dim : kernel.head_dims) {
      Shape shape{.head_dim = head_dim, .q_heads = 8, .kv_heads = 2, .rows = 150, .tokens = tokens};
      shape.first_position = tokens - shape.rows;
      CheckShape(kernel, shape);
      shape.mask = {.causal = true, .window = 3 * block};
      CheckShape(kernel, shape);
      // Rows on both sides of a block's border, so that some see a block that others do not.
      shape.mask = {};
      shape.first_position = 3 * block - 70;
      CheckShape(kernel, shape);
      shape.mask.causal = false;
      CheckShape(kernel, shape);
    }
  }
}

}  // namespace rondo::gpu_check
