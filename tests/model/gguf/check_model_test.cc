// The deep scan finds one bad value in any type, at any place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/gguf/llama_loader.h"
#include "tests/model/gguf/tiny_llama.h"

namespace rondo {
namespace {

using testing::HasSubstr;

absl::Status Check(const TinyLlama& tiny) {
  const auto file = GgufFile::Open(tiny.Write());
  if (!file.ok()) return file.status();
  const auto model = LoadModel(*file);
  if (!model.ok()) return model.status();
  return CheckModel(*model);
}

// A matrix of 64 rows with 512 columns, zeros but for two bytes at `offset` of row 3's block 1.
TinyLlama With(WeightType type, int64_t offset, uint16_t bits) {
  const WeightTypeInfo& info = *FindWeightType(type);
  TinyLlama tiny;
  tiny.numbers["llama.feed_forward_length"] = 512;
  for (const char* layer : {"blk.0.", "blk.1."}) {
    tiny.tensors[std::string(layer) + "ffn_gate.weight"].dims = {64, 512};
    tiny.tensors[std::string(layer) + "ffn_up.weight"].dims = {64, 512};
    tiny.tensors[std::string(layer) + "ffn_down.weight"].dims = {512, 64};
  }
  const int64_t row_blocks = 512 / info.block_elements;
  std::string bytes(static_cast<size_t>(64 * row_blocks * info.block_bytes), '\0');
  bytes.replace(static_cast<size_t>((3 * row_blocks + 1) * info.block_bytes + offset), 2, LittleEndian(bits));
  tiny.tensors["blk.1.ffn_down.weight"].type = type;
  tiny.data["blk.1.ffn_down.weight"] = bytes;
  return tiny;
}

TEST(CheckModel, FindsABadScaleInEveryType) {
  constexpr uint16_t kHalfInfinity = 0x7C00;
  constexpr uint16_t kHalfNan = 0xFE00;
  constexpr uint16_t kBfloatInfinity = 0x7F80;
  const struct {
    WeightType type;
    int64_t offset;
    uint16_t bits;
  } cases[] = {
      {WeightType::kF32, 2, kBfloatInfinity},  {WeightType::kF16, 0, kHalfNan},
      {WeightType::kBF16, 0, kBfloatInfinity}, {WeightType::kQ4_0, 0, kHalfInfinity},
      {WeightType::kQ4_1, 0, kHalfNan},        {WeightType::kQ4_1, 2, kHalfNan},
      {WeightType::kQ5_0, 0, kHalfInfinity},   {WeightType::kQ5_1, 2, kHalfNan},
      {WeightType::kQ8_0, 0, kHalfInfinity},   {WeightType::kQ4_K, 0, kHalfNan},
      {WeightType::kQ4_K, 2, kHalfInfinity},   {WeightType::kQ5_K, 2, kHalfNan},
      {WeightType::kQ6_K, 208, kHalfInfinity},
  };
  for (const auto& [type, offset, bits] : cases) {
    const WeightTypeInfo& info = *FindWeightType(type);
    const absl::Status bad = Check(With(type, offset, bits));
    EXPECT_EQ(bad.code(), absl::StatusCode::kDataLoss) << info.name;
    const std::string message(bad.message());
    EXPECT_THAT(message, HasSubstr("blk.1.ffn_down.weight"));
    EXPECT_THAT(message, HasSubstr("row 3 at column " + std::to_string(info.block_elements)));
    EXPECT_EQ(Check(With(type, offset, 0x3C00)), absl::OkStatus()) << info.name;
  }
}

// The same bits among the integers of a block are no fault.
TEST(CheckModel, LooksAtScalesAlone) {
  EXPECT_TRUE(Check(With(WeightType::kQ4_0, 2, 0x7C00)).ok());
  EXPECT_TRUE(Check(With(WeightType::kQ6_K, 0, 0x7C00)).ok());
}

TEST(CheckModel, WantsAVocabularyThatFits) {
  TinyLlama special;
  special.more = [](GgufWriter& writer) { writer.U32("tokenizer.ggml.eos_token_id", 260); };
  EXPECT_THAT(std::string(Check(special).message()),
              HasSubstr("eos_token_id is 260, but the vocabulary has 260 tokens"));
  TinyLlama shorter;
  shorter.tensors["token_embd.weight"].dims = {64, 250};
  EXPECT_THAT(std::string(Check(shorter).message()), HasSubstr("tokenizer.ggml.tokens has 260 entries"));
}

}  // namespace
}  // namespace rondo
