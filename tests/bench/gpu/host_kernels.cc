// Attention kernels as plain loops, launched as the CUDA ones are: they obey the same arguments and the law of
// canonical blocks, so gpu_check's sections must find nothing wrong with them. The variable RONDO_PLANT makes them
// wrong in one way, which the sections must find.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "base/bf16.h"
#include "bench/gpu/attention_under_test.h"
#include "bench/gpu/decode_under_test.h"
#include "bench/gpu/fold.h"
#include "kernels/cuda/attention/attention.h"

namespace rondo::gpu_check {
namespace {

constexpr int64_t kBlock = 64;
constexpr int64_t kDecodeBlock = 32;
constexpr float kLog2E = 1.4426950408889634f;
constexpr float kEmptyMax = -1048576.0f;

bool Planted(const char* name) {
  const char* plant = std::getenv("RONDO_PLANT");
  return plant != nullptr && std::string(plant) == name;
}

// One query row and head over what KeyArgs hold.
struct RowWork {
  const cuda::AttentionArgs& args;
  int head_dim;
  int64_t row;
  int head;
  int64_t block_tokens;

  int64_t Position() const { return args.query.first_position + row; }

  bool Sees(int64_t key) const {
    const cuda::MaskArgs& mask = args.mask;
    const int64_t p = Position();
    const int64_t off_by_one = Planted("mask") ? 1 : 0;
    if (key < mask.visible_begin || key >= mask.visible_end || (mask.causal && key > p + off_by_one)) return false;
    return mask.window == 0 || (p - key < mask.window && (mask.causal || key - p < mask.window));
  }

  float Score(const uint16_t* key, int64_t distance) const {
    const uint16_t* q =
        static_cast<const uint16_t*>(args.query.q) + row * args.query.row_stride + head * args.query.head_stride;
    float dot = 0;
    for (int d = 0; d < head_dim; ++d) dot = std::fma(Bf16ToFloat(q[d]), Bf16ToFloat(key[d]), dot);
    float s = dot * args.score.scale;
    if (args.score.softcap != 0) s = args.score.softcap * std::tanh(s / args.score.softcap);
    if (args.score.alibi_slopes != nullptr) s -= args.score.alibi_slopes[head] * static_cast<float>(distance);
    return s * kLog2E;
  }

  Node Block(int64_t block) const {
    const cuda::KeyArgs& keys = args.keys;
    const int64_t begin = (block - keys.first_block) * block_tokens, end = std::min(begin + block_tokens, keys.tokens);
    const int64_t kv_head = head / (args.q_heads / args.kv_heads) * keys.head_stride;
    const auto at = [&](const void* tensor, int64_t i) {
      return static_cast<const uint16_t*>(tensor) + kv_head + i * keys.row_stride;
    };
    Node node{{0, block}, std::vector<float>(head_dim), {kEmptyMax}, {0}};
    std::vector<float> scores;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t key = keys.first_block * block_tokens + i;
      scores.push_back(Sees(key) ? Score(at(keys.k, i), std::abs(key - Position())) : -INFINITY);
      node.m[0] = std::max(node.m[0], std::ceil(scores.back()));
    }
    for (int64_t i = begin; i < end; ++i) {
      if (scores[i - begin] == -INFINITY) continue;
      const float p = std::exp2(scores[i - begin] - node.m[0]);
      node.l[0] += p;
      const uint16_t* v = at(keys.v, i);
      for (int d = 0; d < head_dim; ++d) node.o[d] = std::fma(p, Bf16ToFloat(v[d]), node.o[d]);
    }
    return node;
  }

  // The node over blocks [begin, end): their fold, each complete subtree by itself.
  Node Run(int64_t begin, int64_t end) const {
    std::vector<Node> nodes;
    for (int64_t block = begin; block < end; ++block) nodes.push_back(Block(block));
    if (Planted("order")) std::reverse(nodes.begin() + nodes.size() / 2, nodes.end());
    if (!Planted("order")) return FoldToRoot(std::move(nodes));
    for (size_t i = 1; i < nodes.size(); ++i) Merge(&nodes[0], nodes[i]);
    return nodes[0];
  }
};

void Put(const Node& node, const cuda::NodeArgs& to, int64_t index, int64_t row, int head) {
  const int64_t state = index * to.ml_node_stride + row * to.ml_row_stride + head;
  to.m[state] = node.m[0];
  to.l[state] = node.l[0];
  std::copy(node.o.begin(), node.o.end(),
            to.o + index * to.o_node_stride + row * to.o_row_stride + head * to.o_head_stride);
}

Node Get(const cuda::NodeArgs& from, int64_t row, int head, int head_dim) {
  const float* o = from.o + row * from.o_row_stride + head * from.o_head_stride;
  const int64_t state = row * from.ml_row_stride + head;
  return {{}, {o, o + head_dim}, {from.m[state]}, {from.l[state]}};
}

void Finish(const Node& node, const cuda::OutputArgs& to, int64_t row, int head) {
  float m = node.m[0], l = node.l[0], weight = 1;
  if (to.sinks != nullptr) {
    const float sink = to.sinks[head] * kLog2E, sink_m = std::ceil(sink), both = std::max(l == 0 ? sink_m : m, sink_m);
    weight = l == 0 ? 0 : std::exp2(m - both);
    l = l * weight + std::exp2(sink - both);
    m = both;
  }
  const float inverse = l == 0 ? 0.0f : weight * (1 / l);
  to.lse[row * to.lse_row_stride + head] = l == 0 ? -INFINITY : (m + std::log2(l)) / kLog2E;
  const int64_t at = row * to.row_stride + head * to.head_stride;
  for (size_t d = 0; d < node.o.size(); ++d) {
    if (Planted("unwritten") && row == 0 && d == 3) continue;
    const float x = node.o[d] * inverse + 0.0f;
    if (to.out_is_float) {
      static_cast<float*>(to.out)[at + d] = x;
    } else {
      static_cast<uint16_t*>(to.out)[at + d] = FloatToBf16(x);
    }
  }
}

std::string Attend(const cuda::AttentionArgs& args, int head_dim, int64_t block_tokens) {
  if (std::string wrong = cuda::CheckAttention(head_dim, args); !wrong.empty()) return wrong;
  const int64_t first = args.keys.first_block, last = first + (args.keys.tokens + block_tokens - 1) / block_tokens;
  const std::vector<NodeId> ids = DyadicNodes({first, last}, 0);
  for (int64_t row = 0; row < args.query.rows; ++row) {
    for (int head = 0; head < args.q_heads; ++head) {
      const RowWork work{args, head_dim, row, head, block_tokens};
      if (args.output.out != nullptr) {
        Finish(work.Run(first, last), args.output, row, head);
        continue;
      }
      for (size_t i = 0; i < ids.size(); ++i) {
        Put(work.Run(ids[i].begin(), ids[i].end()), args.nodes, static_cast<int64_t>(i), row, head);
      }
    }
  }
  return "";
}

}  // namespace

int64_t BlockTokens() { return kBlock; }
int64_t DecodeBlockTokens() { return kDecodeBlock; }

std::vector<AttentionKernel> PrefillKernels() {
  return {{"plain loops",
           {64},
           [](const cuda::AttentionArgs&, int) { return int64_t{1}; },
           [](const cuda::AttentionArgs& args, int head_dim) { return Attend(args, head_dim, kBlock); }}};
}

std::vector<int> DecodeHeadDims() { return {64}; }

std::string LaunchDecode(const cuda::DecodeArgs& decode, int64_t items, int head_dim) {
  if (std::string wrong = cuda::CheckDecode(head_dim, decode, items); !wrong.empty()) return wrong;
  for (int i = 0; i < decode.count; ++i) {
    const cuda::DecodeSequence& sequence = decode.sequences[i];
    cuda::AttentionArgs args;
    args.q_heads = decode.q_heads;
    args.kv_heads = decode.kv_heads;
    args.mask = {decode.causal, decode.window, sequence.visible_begin, sequence.visible_end};
    args.score = decode.score;
    // By how many rows come along, which nothing may depend on.
    if (Planted("decode") && decode.rows == 1) args.score.scale *= 1.0001f;
    args.query = sequence.query;
    args.keys = sequence.keys;
    args.nodes = sequence.nodes;
    args.output = sequence.output;
    if (std::string wrong = Attend(args, head_dim, kDecodeBlock); !wrong.empty()) return wrong;
  }
  return "";
}

std::string LaunchMerge(const cuda::NodeArgs& left, const cuda::NodeArgs& right, int64_t rows, int heads,
                        int head_dim) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int head = 0; head < heads; ++head) {
      Node node = Get(left, row, head, head_dim);
      Merge(&node, Get(right, row, head, head_dim));
      if (Planted("merge")) node.o[0] = std::nextafter(node.o[0], 1e9f);
      Put(node, left, 0, row, head);
    }
  }
  return "";
}

std::string LaunchFinish(const cuda::NodeArgs& root, const cuda::OutputArgs& output, int64_t rows, int heads,
                         int head_dim) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int head = 0; head < heads; ++head) Finish(Get(root, row, head, head_dim), output, row, head);
  }
  return "";
}

}  // namespace rondo::gpu_check
