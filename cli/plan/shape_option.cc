#include "cli/plan/shape_option.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"

namespace rondo::cli {
namespace {

constexpr int64_t kMost = int64_t{1} << 20;  // of any size
constexpr double kMostBytes = 0x1p60;        // of weights

absl::StatusOr<int64_t> Number(const std::string& name, absl::string_view text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 1 || value > kMost) {
    return absl::InvalidArgumentError(absl::StrCat("--shape ", name, ": ", text, " is not a number from 1 to ", kMost));
  }
  return value;
}

// "128/8x128": query heads, KV heads, size of a head.
absl::Status ParseHeads(absl::string_view text, CostShape* shape) {
  const std::vector<std::string> words = absl::StrSplit(text, absl::ByAnyChar("/x"));
  if (words.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat("--shape heads: ", text, " is not like 32/8x128"));
  }
  int64_t* const to[3] = {&shape->q_heads, &shape->kv_heads, &shape->head_dim};
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<int64_t> value = Number("heads", words[i]);
    if (!value.ok()) return value.status();
    *to[i] = *value;
  }
  if (shape->q_heads % shape->kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shape heads: ", shape->kv_heads, " KV heads do not divide ", shape->q_heads, " query heads"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CostShape> ParseShape(std::string_view text) {
  CostShape shape;
  int64_t bits = 0;
  const std::map<std::string, int64_t*> numbers = {{"layers", &shape.layers},
                                                   {"embedding", &shape.embedding},
                                                   {"feed_forward", &shape.feed_forward},
                                                   {"vocab", &shape.vocab},
                                                   {"weight_bits", &bits}};
  std::map<std::string, int> seen;
  for (const absl::string_view part : absl::StrSplit(Sv(text), ',')) {
    const std::vector<std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::string& name = pair[0];
    const auto at = numbers.find(name);
    if (pair.size() != 2 || (at == numbers.end() && name != "heads") || ++seen[name] > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--shape: ", part, " is not one of layers, embedding, feed_forward, heads, vocab, weight_bits, once"));
    }
    if (name == "heads") {
      if (absl::Status status = ParseHeads(pair[1], &shape); !status.ok()) return status;
      continue;
    }
    const absl::StatusOr<int64_t> value = Number(name, pair[1]);
    if (!value.ok()) return value.status();
    *at->second = *value;
  }
  if (seen.size() != numbers.size() + 1) {
    std::string missing = seen.count("heads") ? "" : " heads";
    for (const auto& [name, unused] : numbers) {
      if (!seen.count(name)) absl::StrAppend(&missing, " ", name);
    }
    return absl::InvalidArgumentError(absl::StrCat("--shape misses", missing));
  }
  if (bits > 64) return absl::InvalidArgumentError(absl::StrCat("--shape weight_bits: ", bits, " is above 64"));
  const double parameters = shape.LayerParameters() + 2 * shape.OutputParameters();  // the embedding, too
  if (parameters * static_cast<double>(bits) / 8 > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shape: ", parameters, " weights of ", bits, " bits are above 2^60 bytes"));
  }
  shape.weight_bytes = static_cast<uint64_t>(std::ceil(parameters * static_cast<double>(bits) / 8));
  return shape;
}

}  // namespace rondo::cli
