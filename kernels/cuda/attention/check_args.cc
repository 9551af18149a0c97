#include <cstdint>
#include <string>

#include "kernels/cuda/attention/attention.h"

namespace rondo::cuda {
namespace {

constexpr int64_t kMostRows = (int64_t{1} << 31) - 1;  // the kernels count rows and tokens of a run in 32 bits

std::string Wrong(const std::string& field, int64_t value, const std::string& limit) {
  return field + " is " + std::to_string(value) + ", must be " + limit;
}

bool Aligned(const void* p, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

std::string CheckHeads(int head_dim, int q_heads, int kv_heads) {
  bool known = false;
  for (const int d : kHeadDims) known |= d == head_dim;
  if (!known) return Wrong("head_dim", head_dim, "64, 80, 96, 128 or 256");
  if (kv_heads < 1) return Wrong("kv_heads", kv_heads, "at least 1");
  if (q_heads < 1 || q_heads % kv_heads != 0) {
    return Wrong("q_heads", q_heads, "a multiple of kv_heads, " + std::to_string(kv_heads));
  }
  return {};
}

std::string CheckScore(const ScoreArgs& score) {
  if (!(score.scale > 0)) return "scale is " + std::to_string(score.scale) + ", must be above 0";
  if (!(score.softcap >= 0)) return "softcap is " + std::to_string(score.softcap) + ", must be 0 or above";
  return {};
}

std::string CheckCopied(const char* name, const void* p, int64_t row_stride, int64_t head_stride) {
  if (!Aligned(p, 16)) return std::string(name) + " is not aligned to 16 bytes";
  if (row_stride % 8 != 0) return Wrong(std::string(name) + " row_stride", row_stride, "a multiple of 8 elements");
  if (head_stride % 8 != 0) return Wrong(std::string(name) + " head_stride", head_stride, "a multiple of 8 elements");
  return {};
}

}  // namespace

std::string CheckAttention(int head_dim, const AttentionArgs& args) {
  if (std::string wrong = CheckHeads(head_dim, args.q_heads, args.kv_heads); !wrong.empty()) return wrong;
  if (std::string wrong = CheckScore(args.score); !wrong.empty()) return wrong;
  if (args.mask.window < 0) return Wrong("window", args.mask.window, "0 or above");
  if (args.mask.visible_begin < 0) return Wrong("visible_begin", args.mask.visible_begin, "0 or above");
  const QueryArgs& query = args.query;
  if (query.rows < 0 || query.rows * args.q_heads > kMostRows) {
    return Wrong("rows", query.rows, "from 0 to 2^31 - 1 over q_heads, " + std::to_string(args.q_heads));
  }
  const KeyArgs& keys = args.keys;
  if (keys.first_block < 0) return Wrong("first_block", keys.first_block, "0 or above");
  if (keys.tokens < 0 || keys.tokens > kMostRows - kBlockTokens) {
    return Wrong("tokens", keys.tokens, "from 0 to 2^31 - 1 - " + std::to_string(kBlockTokens));
  }
  if (std::string wrong = CheckCopied("q", query.q, query.row_stride, query.head_stride); !wrong.empty()) return wrong;
  for (const void* tensor : {keys.k, keys.v}) {
    const char* name = tensor == keys.k ? "k" : "v";
    if (std::string wrong = CheckCopied(name, tensor, keys.row_stride, keys.head_stride); !wrong.empty()) return wrong;
  }
  if (keys.page_shift < 6 || keys.page_shift > 30) return Wrong("page_shift", keys.page_shift, "from 6 to 30");
  if (keys.page_stride % 8 != 0) return Wrong("page_stride", keys.page_stride, "a multiple of 8 elements");
  if (!Aligned(args.scratch, 16)) return "scratch is not aligned to 16 bytes";
  return {};
}

std::string CheckDecode(int head_dim, const DecodeArgs& args, int64_t items) {
  if (std::string wrong = CheckHeads(head_dim, args.q_heads, args.kv_heads); !wrong.empty()) return wrong;
  if (std::string wrong = CheckScore(args.score); !wrong.empty()) return wrong;
  if (args.window < 0) return Wrong("window", args.window, "0 or above");
  if (args.count < 0) return Wrong("count", args.count, "0 or above");
  if (args.rows < 0 || args.rows * args.q_heads > kMostRows) {
    return Wrong("rows", args.rows, "from 0 to 2^31 - 1 over q_heads, " + std::to_string(args.q_heads));
  }
  if (items < 0 || items > kMostRows) return Wrong("items", items, "from 0 to 2^31 - 1");
  return {};
}

}  // namespace rondo::cuda
