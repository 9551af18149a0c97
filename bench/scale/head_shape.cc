#include "bench/scale/head_shape.h"

#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"

namespace rondo {

absl::StatusOr<AttentionShape> ParseHeads(std::string_view text, KvType kv_type) {
  const auto wrong = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("heads '", Sv(text), "': ", Sv(why), "; expected Q/KVxD, e.g. 32/8x128"));
  };
  const std::vector<std::string> parts = absl::StrSplit(Sv(text), absl::ByAnyChar("/x"));
  AttentionShape shape;
  if (parts.size() != 3 || text.find('/') > text.find('x') || !absl::SimpleAtoi(parts[0], &shape.q_heads) ||
      !absl::SimpleAtoi(parts[1], &shape.kv_heads) || !absl::SimpleAtoi(parts[2], &shape.head_dim)) {
    return wrong("not three numbers");
  }
  if (shape.q_heads < 1 || shape.q_heads > 1024) return wrong("query heads must be 1 to 1024");
  if (shape.kv_heads < 1 || shape.q_heads % shape.kv_heads != 0) return wrong("KV heads must divide the query heads");
  if (shape.head_dim < 1 || shape.head_dim > 1024) return wrong("the head dimension must be 1 to 1024");
  shape.kv_type = kv_type;
  shape.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  return shape;
}

}  // namespace rondo
