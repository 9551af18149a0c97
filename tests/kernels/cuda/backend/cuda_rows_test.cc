// Norms, RoPE, activations, sums and lookup of the dense seam over an emulated GPU, against the kernels in double of
// the CPU.
#include <gtest/gtest.h>

#include "kernels/cuda/backend/cuda_dense.h"
#include "kernels/ref/factories.h"
#include "tests/kernels/cuda/backend/small_model.h"

namespace rondo::cuda {
namespace {

using rondo::testing::RandomFloats;
using rondo::testing::TypeName;

class CudaDenseRows : public ::testing::Test {
 protected:
  CudaDenseRows() : model_(WeightType::kQ8_0), on_(model_), random_(6) {}
  static void ExpectNear(const std::vector<float>& got, const std::vector<float>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-6 * (1 + std::fabs(expected[i]))) << i;
  }
  SmallModel model_;
  OnGpu on_;
  std::mt19937_64 random_;
  const DenseKernels& ref_ = *RefDense();
};

TEST_F(CudaDenseRows, Norms) {
  std::vector<float> x = RandomFloats(3 * kWidth, random_), addend = RandomFloats(3 * kWidth, random_);
  std::vector<float> expected(x.size());
  float* const on_x = on_.Put(x);
  float* const y = on_.Put(x);
  for (const std::vector<float>& gain : model_.gains) {
    ref_.RmsNorm(x.data(), gain.data(), 1e-5f, 3, kWidth, expected.data(), on_.pool);
    on_.dense->RmsNorm(on_x, gain.data(), 1e-5f, 3, kWidth, y, on_.pool);
    ExpectNear(on_.Get(y, 3 * kWidth), expected);
  }
  EXPECT_TRUE(SameBits(on_.Get(on_x, 3 * kWidth), x));
  // With the sum before it, then in place.
  const float* gain = model_.gains[1].data();
  ref_.AddRmsNorm(x.data(), addend.data(), gain, 1e-5f, 3, kWidth, expected.data(), on_.pool);
  on_.dense->AddRmsNorm(on_x, on_.Put(addend), gain, 1e-5f, 3, kWidth, y, on_.pool);
  ExpectNear(on_.Get(y, 3 * kWidth), expected);
  EXPECT_TRUE(SameBits(on_.Get(on_x, 3 * kWidth), x));
  on_.dense->RmsNorm(on_x, gain, 1e-5f, 3, kWidth, on_x, on_.pool);
  EXPECT_TRUE(SameBits(on_.Get(on_x, 3 * kWidth), on_.Get(y, 3 * kWidth)));
}

TEST_F(CudaDenseRows, RopeActivationsAndSums) {
  std::vector<float> x = RandomFloats(5 * 3 * 64, random_);
  const std::vector<float> cos = RandomFloats(5 * 24, random_), sin = RandomFloats(5 * 24, random_);
  for (const RopePairing pairing : {RopePairing::kInterleaved, RopePairing::kHalves}) {
    float* const on_x = on_.Put(x);
    on_.dense->Rope(on_x, 5, 3, 64, pairing, on_.Put(cos), on_.Put(sin), 48, on_.pool);
    ref_.Rope(x.data(), 5, 3, 64, pairing, cos.data(), sin.data(), 48, on_.pool);
    ExpectNear(on_.Get(on_x, 5 * 3 * 64), x);
  }
  std::vector<float> gate = RandomFloats(1000, random_), up = RandomFloats(1000, random_), out(1000);
  for (const GateKind kind : {GateKind::kSilu, GateKind::kGeluTanh}) {
    float* const on_gate = on_.Put(gate);
    on_.dense->GatedActivation(kind, on_gate, on_.Put(up), 1000, on_gate, on_.pool);
    ref_.GatedActivation(kind, gate.data(), up.data(), 1000, out.data(), on_.pool);
    ExpectNear(on_.Get(on_gate, 1000), out);
  }
  float* const sum = on_.Put(gate);
  on_.dense->Add(sum, on_.Put(up), 1000, on_.pool);
  ref_.Add(gate.data(), up.data(), 1000, on_.pool);
  EXPECT_TRUE(SameBits(on_.Get(sum, 1000), gate));
}

TEST_F(CudaDenseRows, LookupGivesTheFilesNumbers) {
  for (const WeightType type : rondo::testing::kAllWeightTypes) {
    SmallModel model(type);
    OnGpu on(model);
    const std::vector<int32_t> ids = {44, 0, 7, 7};
    std::vector<float> expected(ids.size() * kWidth);
    ref_.DequantiseRows(model.weights.embedding, ids.data(), 4, expected.data(), on.pool);
    float* const out = on.Put(expected);
    on.dense->DequantiseRows(model.weights.embedding, ids.data(), 4, out, on.pool);
    EXPECT_TRUE(SameBits(on.Get(out, 4 * kWidth), expected)) << TypeName(type);
    on.dense->DequantiseRow(model.weights.embedding, 7, out);
    EXPECT_TRUE(SameBits(on.Get(out, kWidth), PickRows(expected, kWidth, {2}))) << TypeName(type);
  }
}

TEST_F(CudaDenseRows, NoRowsNeedNoLaunch) {
  on_.dense->RmsNorm(nullptr, model_.gains[0].data(), 1e-5f, 0, kWidth, nullptr, on_.pool);
  on_.dense->Rope(nullptr, 0, 3, 64, RopePairing::kHalves, nullptr, nullptr, 64, on_.pool);
  on_.dense->GatedActivation(GateKind::kSilu, nullptr, nullptr, 0, nullptr, on_.pool);
  on_.dense->Add(nullptr, nullptr, 0, on_.pool);
  on_.dense->DequantiseRows(model_.weights.embedding, nullptr, 0, nullptr, on_.pool);
  EXPECT_TRUE(on_.emulated.TakeLaunches().empty());
}

}  // namespace
}  // namespace rondo::cuda
