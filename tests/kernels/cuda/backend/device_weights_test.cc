// Weights on their way to a GPU: what they need, what does not fit, what has no kernel.
#include "kernels/cuda/backend/device_weights.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/dense/packed_weight.h"
#include "kernels/ref/factories.h"
#include "tests/kernels/cuda/backend/small_model.h"

namespace rondo::cuda {
namespace {

using rondo::testing::RandomFloats;

class UploadTest : public ::testing::Test {
 protected:
  absl::Status Upload(const SmallModel& model) { return CudaDense::Create(dense_, model.weights).status(); }
  EmulatedGpu gpu_;
  EmulatedDense dense_{gpu_};
};

// Every number by hand, for Q8_0 with its 34 bytes a block of 32.
TEST_F(UploadTest, WeightsThatDoNotFitAreRefusedWithTheNumbers) {
  const SmallModel model(WeightType::kQ8_0);
  constexpr int64_t kLayer = 72 + 8 + 24 + kWidth + 2 * kInner;  // rows of kWidth columns
  constexpr int64_t kDown = kWidth * kInner;
  constexpr int64_t kRounded = 2 * (kLayer * kWidth + kDown);
  // Rows in tiles of 16: 72 are 80, 8 are 16, 24 are 32, the output's 45 are 48; a byte a weight, and two for 32.
  constexpr int64_t kTiled = (80 + 16 + 32 + kWidth + 2 * kInner + 48) * kWidth + kDown;
  constexpr int64_t kPacked = kTiled + kTiled / 32 * 2;
  constexpr int64_t kEmbedding = kVocab * kWidth / 32 * 34;
  constexpr int64_t kLargest = kInner * kWidth / 32 * 34;
  // The embedding's 12,240 bytes alone do not end on 256.
  constexpr int64_t kNeeded = kRounded + kPacked + kEmbedding + 48 + 3 * kWidth * 4 + kLargest;
  dense_.set_free_bytes(kNeeded - 1);
  const absl::Status refused = Upload(model);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(), absl::StrCat("the weights need ", kNeeded, " bytes of GPU memory (", kRounded,
                                            " in bf16, ", kPacked, " packed, ", kEmbedding, " as in the file, ",
                                            kLargest, " while they are read), and ", kNeeded - 1, " are free"));
  dense_.set_free_bytes(kNeeded);
  EXPECT_TRUE(Upload(model).ok());
}

TEST_F(UploadTest, MemoryThatIsGoneByThenIsRefusedToo) {
  const SmallModel model(WeightType::kQ8_0);
  ASSERT_TRUE(Upload(model).ok());
  gpu_.set_memory(size_t{1} << 20);
  EXPECT_EQ(Upload(model).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(gpu_.used(), 0u);
}

// 256 rows of the widest weight in bf16, of the most outputs in float32, and of ids.
TEST_F(UploadTest, ScratchOfProductsIsTakenAtOnce) {
  const SmallModel model(WeightType::kQ6_K);
  constexpr size_t kScratch = 256 * kInner * 2 + 256 * kInner * 4 + 256 * 4;
  size_t with_scratch = 0;
  {
    const auto dense = CudaDense::Create(dense_, model.weights).value();
    with_scratch = gpu_.used();
  }
  // More than what the weights need while they are read.
  gpu_.set_memory(with_scratch - 1);
  const absl::Status refused = Upload(model);
  EXPECT_EQ(refused,
            absl::ResourceExhaustedError(absl::StrCat("beside the weights, products need ", kScratch,
                                                      " bytes of GPU memory, and ", uint64_t{1} << 40, " are free")));
  EXPECT_EQ(gpu_.used(), 0u);
}

// A tied output is read as the embedding, and multiplied.
TEST_F(UploadTest, ATiedOutputIsOneWeightInTwoForms) {
  for (const WeightType type : kSomeTypes) {
    SmallModel model(type);
    model.weights.output = model.weights.embedding;
    OnGpu on(model);
    std::mt19937_64 random(8);
    const std::vector<float> x = RandomFloats(kWidth, random);
    const std::vector<float> y = on.MatMul(model.weights.output, RowKind::kDrawn, x);
    if (CanPack(type)) {
      ExpectProducts(model.weights.output, x, y, [](double v) { return v; });
    } else {
      ExpectProducts(model.weights.output, x, y, Bf16);
    }
    std::vector<float> row(kWidth);
    RefDense()->DequantiseRow(model.weights.embedding, 3, row.data());
    float* const out = on.Put(row);
    on.dense->DequantiseRow(model.weights.embedding, 3, out);
    EXPECT_TRUE(SameBits(on.Get(out, kWidth), row));
  }
}

TEST_F(UploadTest, SizesAndTypesWithoutAKernelAreNamed) {
  SmallModel model(WeightType::kF32);
  model.weights.layers[0].wk = model.Matrix(WeightType::kF32, 8, 252);
  EXPECT_EQ(Upload(model), absl::InvalidArgumentError(
                               "layer 0 wk: rows of 252 weights have no GPU kernel, which takes multiples of 8"));
  model.weights.layers[0].wk.type = static_cast<WeightType>(99);
  EXPECT_EQ(Upload(model), absl::InvalidArgumentError("layer 0 wk: weight type 99 has no GPU kernel"));
}

TEST_F(UploadTest, AShapeThatCublasLtDoesNotMultiplyIsNamed) {
  dense_.set_refused_outputs(24);
  EXPECT_EQ(Upload(SmallModel(WeightType::kQ8_0)),
            absl::UnimplementedError("layer 0 wv: cuBLASLt has no algorithm without split-K for n 24, k 256"));
}

}  // namespace
}  // namespace rondo::cuda
