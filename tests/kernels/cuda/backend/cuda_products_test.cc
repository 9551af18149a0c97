// Products of the dense seam over an emulated GPU: every weight type and kind of row against double, the bits of a row
// whatever is beside it, and which kernel multiplied what.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "kernels/cuda/backend/cuda_dense.h"
#include "kernels/cuda/dense/packed_weight.h"
#include "tests/kernels/cuda/backend/small_model.h"

namespace rondo::cuda {
namespace {

using rondo::testing::RandomFloats;
using rondo::testing::TypeName;

using Launches = std::map<std::string, int>;

TEST(CudaDenseTest, GivenRowsMeetEveryTypeInBf16) {
  for (const WeightType type : rondo::testing::kAllWeightTypes) {
    SCOPED_TRACE(TypeName(type));
    const SmallModel model(type);
    OnGpu on(model);
    std::mt19937_64 random(2);
    const LayerWeights& layer = model.weights.layers[0];
    for (const WeightView* weight : {&layer.wk, &layer.wv, &layer.down}) {
      const std::vector<float> x = RandomFloats(3 * weight->cols, random);
      ExpectProducts(*weight, x, on.MatMul(*weight, RowKind::kGiven, x), Bf16);
    }
  }
}

TEST(CudaDenseTest, DrawnRowsMeetPackedCodesInFloat32AndOthersInBf16) {
  for (const WeightType type : rondo::testing::kAllWeightTypes) {
    SCOPED_TRACE(TypeName(type));
    const SmallModel model(type);
    OnGpu on(model);
    std::mt19937_64 random(3);
    const LayerWeights& layer = model.weights.layers[0];
    for (const WeightView* weight : {&layer.wv, &layer.down, &model.weights.output}) {
      const std::vector<float> x = RandomFloats(2 * weight->cols, random);
      const std::vector<float> y = on.MatMul(*weight, RowKind::kDrawn, x);
      if (CanPack(type)) {
        ExpectProducts(*weight, x, y, [](double v) { return v; });
      } else {
        ExpectProducts(*weight, x, y, Bf16);
      }
    }
  }
}

TEST(CudaDenseTest, TheKernelFollowsFromKindAndTypeAlone) {
  for (const WeightType type : kSomeTypes) {
    SCOPED_TRACE(TypeName(type));
    const SmallModel model(type);
    OnGpu on(model);
    const WeightView& weight = model.weights.layers[0].wk;
    for (const int64_t count : {0, 1, 8, 9, 127, 128, 129, 300}) {
      SCOPED_TRACE(count);
      const std::vector<float> x(count * kWidth, 0.5f);
      Launches by_lt;
      if (count > 0) by_lt = {{"round", 1}, {"lt", static_cast<int>((count + 127) / 128)}};
      if (count % 128 != 0) by_lt["move"] = 1;
      on.MatMul(weight, RowKind::kGiven, x);
      EXPECT_EQ(on.emulated.TakeLaunches(), by_lt);
      on.MatMul(weight, RowKind::kDrawn, x);
      const Launches few = count > 0 ? Launches{{"few rows", 1}} : Launches{};
      EXPECT_EQ(on.emulated.TakeLaunches(), CanPack(type) ? few : by_lt);
    }
  }
}

TEST(CudaDenseTest, RowsAreRoundedOnceForSeveralProducts) {
  const SmallModel model(WeightType::kQ6_K);
  OnGpu on(model);
  const LayerWeights& layer = model.weights.layers[0];
  std::mt19937_64 random(4);
  const std::vector<float> x = RandomFloats(2 * kWidth, random), other = RandomFloats(2 * kWidth, random);
  const std::vector<float> expected = on.MatMul(layer.wk, RowKind::kGiven, x);
  float* const y = on.Put(std::vector<float>(2 * 72));
  ActivationRows rows, others;
  on.dense->PrepareRows(ComputeMode::kBf16, on.Put(x), 2, kWidth, &rows, on.pool);
  on.emulated.TakeLaunches();
  on.dense->MatMul(layer.wq, rows, y, on.pool);
  on.dense->MatMul(layer.wk, rows, y, on.pool);
  EXPECT_EQ(on.emulated.TakeLaunches()["round"], 1);
  // Rows made ready in between do not take the place of these.
  on.dense->PrepareRows(ComputeMode::kBf16, on.Put(other), 2, kWidth, &others, on.pool);
  on.dense->MatMul(layer.wk, others, y, on.pool);
  on.dense->MatMul(layer.wk, rows, y, on.pool);
  EXPECT_TRUE(SameBits(on.Get(y, 16), expected));
  // Other values at the same place are other rows.
  float* const place = on.Put(x);
  on.dense->PrepareRows(ComputeMode::kBf16, place, 2, kWidth, &rows, on.pool);
  on.dense->MatMul(layer.wk, rows, y, on.pool);
  on.gpu.Copy(place, other.data(), other.size() * sizeof(float));
  on.dense->PrepareRows(ComputeMode::kBf16, place, 2, kWidth, &rows, on.pool);
  on.dense->MatMul(layer.wk, rows, y, on.pool);
  EXPECT_FALSE(SameBits(on.Get(y, 16), expected));
}

TEST(CudaDenseTest, ARowsBitsAreItsOwn) {
  constexpr int64_t kCount = 133;
  for (const WeightType type : kSomeTypes) {
    const SmallModel model(type);
    OnGpu on(model);
    std::mt19937_64 random(5);
    const WeightView& wk = model.weights.layers[0].wk;
    const std::vector<float> x = RandomFloats(kCount * kWidth, random);
    for (const RowKind kind : {RowKind::kGiven, RowKind::kDrawn}) {
      SCOPED_TRACE(::testing::Message() << TypeName(type) << (kind == RowKind::kDrawn ? " drawn" : " given"));
      const std::vector<float> all = on.MatMul(wk, kind, x);
      const std::vector<std::vector<int64_t>> choices = {{0}, {132}, {128, 3}, {5, 4, 3, 2, 1, 0, 127, 130, 131}};
      for (const std::vector<int64_t>& which : choices) {
        EXPECT_TRUE(SameBits(on.MatMul(wk, kind, PickRows(x, kWidth, which)), PickRows(all, wk.rows, which)))
            << which[0];
      }
    }
    // The odd number of outputs, for which there is a padded buffer.
    const WeightView& output = model.weights.output;
    const std::vector<float> logits = on.MatMul(output, RowKind::kDrawn, PickRows(x, kWidth, {0, 1, 2}));
    EXPECT_TRUE(SameBits(on.MatMul(output, RowKind::kDrawn, PickRows(x, kWidth, {2})), PickRows(logits, kVocab, {2})));
  }
}

TEST(CudaDenseDeathTest, AWeightOfAnotherModelIsABug) {
  const SmallModel model(WeightType::kQ8_0), other(WeightType::kQ8_0, 2);
  OnGpu on(model);
  ActivationRows rows;
  on.dense->PrepareRows(ComputeMode::kBf16, on.Put(std::vector<float>(kWidth)), 1, kWidth, &rows, on.pool);
  EXPECT_DEATH(on.dense->MatMul(other.weights.layers[0].wk, rows, nullptr, on.pool), "RONDO_CHECK failed: found");
  EXPECT_DEATH(on.dense->PrepareRows(ComputeMode::kF32, nullptr, 1, kWidth, &rows, on.pool), "kBf16");
}

}  // namespace
}  // namespace rondo::cuda
