#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rondo/ring.h"

namespace rondo {
namespace {

constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();
constexpr int32_t kMaxHeadDim = 256;  // what the CPU kernels' tiles hold

absl::Status Between(const char* field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " must be ", least, " to ", most, ", not ", value));
}

absl::Status CheckScores(const AttentionShape& s) {
  const float cap = s.score.softcap;
  if (cap != 0 && !(cap >= kMinSoftcap && cap <= kMaxSoftcap)) {
    return absl::InvalidArgumentError(
        absl::StrCat("softcap must be 0 (none) or ", kMinSoftcap, " to ", kMaxSoftcap, ", not ", cap));
  }
  for (int32_t head = 0; s.score.alibi_slopes != nullptr && head < s.q_heads; ++head) {
    if (std::isfinite(s.score.alibi_slopes[head])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("alibi_slopes[", head, "] must be finite, not ", s.score.alibi_slopes[head]));
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const AttentionShape& s) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  if (absl::Status ok = Between("q_heads", s.q_heads, 1, kMost); !ok.ok()) return ok;
  if (absl::Status ok = Between("kv_heads", s.kv_heads, 1, kMost); !ok.ok()) return ok;
  if (absl::Status ok = Between("head_dim", s.head_dim, 1, kMaxHeadDim); !ok.ok()) return ok;
  if (s.q_heads % s.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv_heads must divide q_heads: ", s.kv_heads, " does not divide ", s.q_heads));
  }
  if (!std::isfinite(s.scale)) return absl::InvalidArgumentError(absl::StrCat("scale must be finite, not ", s.scale));
  return CheckScores(s);
}

// The starts ascend from 0 to the number of keys: every key has one sequence.
absl::Status CheckStarts(absl::Span<const int64_t> starts, int64_t kv_tokens) {
  if (starts.empty()) return absl::OkStatus();
  if (starts.front() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("sequence_starts[0] must be 0, not ", starts.front()));
  }
  for (size_t i = 1; i < starts.size(); ++i) {
    if (starts[i] >= starts[i - 1]) continue;
    return absl::InvalidArgumentError(absl::StrCat("sequence_starts must ascend: [", i, "] is ", starts[i],
                                                   ", below the ", starts[i - 1], " before it"));
  }
  if (starts.back() == kv_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the last of sequence_starts must be the number of keys, ", kv_tokens, ", not ", starts.back()));
}

// Every count of bytes that follows from the problem fits an int64, whatever the plan.
absl::Status CheckSizes(const RingProblem& p) {
  const auto too_large = [](const char* what, int64_t tokens, int64_t heads, int64_t head_dim) {
    return absl::InvalidArgumentError(absl::StrCat(what, " of [", tokens, ", ", heads, ", ", head_dim,
                                                   "] is too large: its bytes must be below 2^62"));
  };
  const auto fits = [](int64_t tokens, int64_t heads, int64_t width) {
    int64_t elements = 0;
    int64_t bytes = 0;
    return !__builtin_mul_overflow(tokens, heads, &elements) && !__builtin_mul_overflow(elements, width, &elements) &&
           !__builtin_mul_overflow(elements, int64_t{16}, &bytes);  // float32, and room for blocks and nodes
  };
  const AttentionShape& s = p.shape;
  if (!fits(p.q_tokens + kBlockTokens, s.q_heads, s.head_dim + 2)) {
    return too_large("q", p.q_tokens, s.q_heads, s.head_dim);
  }
  if (!fits(p.kv_tokens + kBlockTokens, s.kv_heads, s.head_dim)) {
    return too_large("k", p.kv_tokens, s.kv_heads, s.head_dim);
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<RingStrategy> ParseRingStrategy(std::string_view text) {
  for (const RingStrategy s : {RingStrategy::kAuto, RingStrategy::kPassKv, RingStrategy::kPassQ}) {
    if (text == Name(s)) return s;
  }
  return std::nullopt;
}

absl::Status Validate(const RingProblem& p) {
  if (absl::Status ok = CheckShape(p.shape); !ok.ok()) return ok;
  if (absl::Status ok = Between("q_tokens", p.q_tokens, 0, kMaxTokens); !ok.ok()) return ok;
  if (absl::Status ok = Between("kv_tokens", p.kv_tokens, 0, kMaxTokens); !ok.ok()) return ok;
  if (absl::Status ok = CheckSizes(p); !ok.ok()) return ok;
  if (absl::Status ok = Between("window", p.mask.window, 0, std::numeric_limits<int64_t>::max()); !ok.ok()) return ok;
  return CheckStarts(p.mask.sequence_starts, p.kv_tokens);
}

}  // namespace rondo
