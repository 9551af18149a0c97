#include "proto/attention_spec.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace rondo {
namespace {

// A row of float32 fits in a piece of 4 MiB.
static_assert(int64_t{kMaxAttentionHeads} * kMaxAttentionHeadDim * 4 <= 4 << 20);

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status CheckRange(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Invalid(field, ": ", value, " is not in ", low, "..", high);
}

absl::Status CheckShape(const v1::AttentionSpec& s) {
  absl::Status status = CheckRange("q_tokens", s.q_tokens(), 0, kMaxAttentionTokens);
  status.Update(CheckRange("kv_tokens", s.kv_tokens(), 0, kMaxAttentionTokens));
  status.Update(CheckRange("q_heads", s.q_heads(), 1, kMaxAttentionHeads));
  status.Update(CheckRange("kv_heads", s.kv_heads(), 1, kMaxAttentionHeads));
  status.Update(CheckRange("head_dim", s.head_dim(), 1, kMaxAttentionHeadDim));
  if (!status.ok()) return status;
  if (s.q_heads() % s.kv_heads() != 0) {
    return Invalid("kv_heads: ", s.kv_heads(), " does not divide q_heads, which is ", s.q_heads());
  }
  return absl::OkStatus();
}

absl::Status CheckPerHead(const char* field, const google::protobuf::RepeatedField<float>& values, int32_t q_heads,
                          bool minus_infinity) {
  if (values.empty()) return absl::OkStatus();
  if (values.size() != q_heads) {
    return Invalid(field, ": ", values.size(), " values where one for each of ", q_heads, " q heads is needed");
  }
  for (int i = 0; i < values.size(); ++i) {
    const bool none = minus_infinity && values[i] == -std::numeric_limits<float>::infinity();
    if (!std::isfinite(values[i]) && !none) return Invalid(field, "[", i, "]: ", values[i], " is not finite");
  }
  return absl::OkStatus();
}

absl::Status CheckStarts(const v1::AttentionSpec& s) {
  const auto& starts = s.sequence_starts();
  if (starts.empty()) return absl::OkStatus();
  if (starts[0] != 0) return Invalid("sequence_starts[0]: ", starts[0], ", the first must be 0");
  for (int i = 1; i < starts.size(); ++i) {
    if (starts[i] < starts[i - 1]) {
      return Invalid("sequence_starts[", i, "]: ", starts[i], " is less than the one before, ", starts[i - 1]);
    }
  }
  if (const int last = starts.size() - 1; starts[last] != s.kv_tokens()) {
    return Invalid("sequence_starts[", last, "]: ", starts[last], ", the last must be kv_tokens, ", s.kv_tokens());
  }
  return absl::OkStatus();
}

absl::Status CheckScores(const v1::AttentionSpec& s) {
  // NaN is in no range.
  if (s.has_scale() && !(s.scale() >= kMinAttentionScale && s.scale() <= kMaxAttentionScale)) {
    return Invalid("scale: ", s.scale(), " is not in ", kMinAttentionScale, "..", kMaxAttentionScale,
                   "; leave it out for 1 / sqrt(head_dim)");
  }
  if (s.window() < 0) return Invalid("window: ", s.window(), ", 0 (none) or more is needed");
  if (!std::isfinite(s.softcap()) || s.softcap() < 0) {
    return Invalid("softcap: ", s.softcap(), ", 0 (none) or a positive number is needed");
  }
  absl::Status status = CheckPerHead("sinks", s.sinks(), s.q_heads(), true);
  status.Update(CheckPerHead("alibi_slopes", s.alibi_slopes(), s.q_heads(), false));
  status.Update(CheckStarts(s));
  return status;
}

}  // namespace

absl::StatusOr<AttentionJobSpec> FromProto(const v1::AttentionSpec& from) {
  absl::Status status = CheckShape(from);
  status.Update(CheckScores(from));
  if (!status.ok()) return status;
  AttentionJobSpec spec;
  spec.q_tokens = from.q_tokens();
  spec.kv_tokens = from.kv_tokens();
  spec.shape.q_heads = from.q_heads();
  spec.shape.kv_heads = from.kv_heads();
  spec.shape.head_dim = from.head_dim();
  if (from.kv_type() != v1::F32 && from.kv_type() != v1::BF16) {
    return Invalid("kv_type: ", static_cast<int>(from.kv_type()), " is not F32 (0) or BF16 (1)");
  }
  spec.shape.kv_type = from.kv_type() == v1::BF16 ? KvType::kBf16 : KvType::kF32;
  spec.shape.scale = from.has_scale() ? from.scale() : 1.0f / std::sqrt(static_cast<float>(from.head_dim()));
  spec.causal = from.causal();
  spec.window = from.window();
  spec.softcap = from.softcap();
  spec.sinks.assign(from.sinks().begin(), from.sinks().end());
  spec.alibi_slopes.assign(from.alibi_slopes().begin(), from.alibi_slopes().end());
  spec.sequence_starts.assign(from.sequence_starts().begin(), from.sequence_starts().end());
  spec.ring_size = from.ring_size();
  if (from.strategy() < v1::AUTO || from.strategy() > v1::PASS_Q) {
    return Invalid("strategy: ", static_cast<int>(from.strategy()), " is not AUTO (0), PASS_KV (1) or PASS_Q (2)");
  }
  spec.strategy = static_cast<RingStrategy>(from.strategy());
  spec.want_lse = from.want_lse();
  if (status = Validate(spec.Problem()); !status.ok()) return status;
  return spec;
}

v1::AttentionSpec ToProto(const AttentionJobSpec& from) {
  v1::AttentionSpec to;
  to.set_q_tokens(from.q_tokens);
  to.set_kv_tokens(from.kv_tokens);
  to.set_q_heads(from.shape.q_heads);
  to.set_kv_heads(from.shape.kv_heads);
  to.set_head_dim(from.shape.head_dim);
  to.set_kv_type(from.shape.kv_type == KvType::kBf16 ? v1::BF16 : v1::F32);
  to.set_scale(from.shape.scale);
  to.set_causal(from.causal);
  to.set_window(from.window);
  to.set_softcap(from.softcap);
  to.mutable_sinks()->Add(from.sinks.begin(), from.sinks.end());
  to.mutable_alibi_slopes()->Add(from.alibi_slopes.begin(), from.alibi_slopes.end());
  to.mutable_sequence_starts()->Add(from.sequence_starts.begin(), from.sequence_starts.end());
  to.set_ring_size(from.ring_size);
  to.set_strategy(static_cast<v1::Strategy>(from.strategy));
  to.set_want_lse(from.want_lse);
  return to;
}

}  // namespace rondo
