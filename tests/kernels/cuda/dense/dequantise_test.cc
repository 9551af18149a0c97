// Dequantised rows of every GGUF type: bit-equal to the reference kernels' float values and to their roundings.
#include "kernels/cuda/dense/dequantise.cuh"

#include "kernels/ref/factories.h"
#include "tests/kernels/cuda/dense/emulated.h"
#include "tests/kernels/dense/weights.h"

namespace rondo::cuda {
namespace {

using testing::Fill;

template <class Out>
using Rows = std::vector<typename Kept<Out>::Memory>;

// Rows `ids` of the weight; all of them where there are no ids.
template <WeightType kType, class Out>
Rows<Out> Dequantised(const WeightView& weight, const std::vector<int32_t>& ids, const HowToRun& how = {}) {
  const int64_t rows = ids.empty() ? weight.rows : static_cast<int64_t>(ids.size());
  auto out = Poisoned<typename Kept<Out>::Memory>(rows * weight.cols);
  const auto* bytes = reinterpret_cast<const uint8_t*>(weight.data);
  const std::vector<uint8_t> file(bytes, bytes + weight.rows * weight.row_bytes);
  EmulatedLaunch launch(how);
  const DequantiseArgs args{.weight = launch.In(file, "weight"),
                            .row_bytes = static_cast<int64_t>(weight.row_bytes),
                            .ids = ids.empty() ? nullptr : launch.In(ids, "ids"),
                            .out = launch.Out(out, "out"),
                            .rows = rows,
                            .cols = weight.cols};
  launch.Run(kDequantiseThreads, 0, [&] { Dequantise<kType, Out>(args); });
  return out;
}

template <class Out>
Rows<Out> Reference(const WeightView& weight, const std::vector<int32_t>& ids) {
  std::vector<float> row(weight.cols);
  Rows<Out> all;
  const int64_t rows = ids.empty() ? weight.rows : static_cast<int64_t>(ids.size());
  for (int64_t i = 0; i < rows; ++i) {
    RefDense()->DequantiseRow(weight, ids.empty() ? i : ids[i], row.data());
    for (const float x : row) all.push_back(Kept<Out>::From(x));
  }
  return all;
}

template <WeightType kType>
void ExpectReferenceBits() {
  SCOPED_TRACE(testing::TypeName(kType));
  std::mt19937_64 random(static_cast<uint64_t>(kType) + 1);
  for (const Fill fill : {Fill::kRandom, Fill::kExtreme, Fill::kZero, Fill::kDenormal, Fill::kHuge}) {
    const testing::Weights weights = testing::MakeWeights(kType, 5, 768, fill, random);
    const WeightView& view = weights.view;
    const std::vector<int32_t> ids = {3, 0, 3, 4};
    EXPECT_TRUE(SameBits(Reference<float>(view, {}), Dequantised<kType, float>(view, {})));
    EXPECT_TRUE(SameBits(Reference<gpu::Bf16>(view, {}), Dequantised<kType, gpu::Bf16>(view, {}, {.ctas = 1})));
    EXPECT_TRUE(SameBits(Reference<float>(view, ids), Dequantised<kType, float>(view, ids, {.ctas = 5})));
    EXPECT_TRUE(SameBits(Reference<gpu::Bf16>(view, ids), Dequantised<kType, gpu::Bf16>(view, ids)));
  }
}

TEST(CudaDequantise, TheBitsOfTheReference) {
  ExpectReferenceBits<WeightType::kF32>();
  ExpectReferenceBits<WeightType::kF16>();
  ExpectReferenceBits<WeightType::kBF16>();
  ExpectReferenceBits<WeightType::kQ4_0>();
  ExpectReferenceBits<WeightType::kQ4_1>();
  ExpectReferenceBits<WeightType::kQ5_0>();
  ExpectReferenceBits<WeightType::kQ5_1>();
  ExpectReferenceBits<WeightType::kQ8_0>();
  ExpectReferenceBits<WeightType::kQ4_K>();
  ExpectReferenceBits<WeightType::kQ5_K>();
  ExpectReferenceBits<WeightType::kQ6_K>();
}

TEST(CudaDequantise, RowsOfFewBlocks) {
  std::mt19937_64 random(2);
  for (const int64_t cols : {32, 96, 352}) {
    const testing::Weights weights = testing::MakeWeights(WeightType::kQ5_0, 3, cols, Fill::kRandom, random);
    EXPECT_TRUE(SameBits(Reference<float>(weights.view, {}), Dequantised<WeightType::kQ5_0, float>(weights.view, {})));
  }
  // Unquantised rows need not be whole blocks.
  const testing::Weights weights = testing::MakeWeights(WeightType::kF16, 3, 36, Fill::kRandom, random);
  EXPECT_TRUE(SameBits(Reference<float>(weights.view, {}), Dequantised<WeightType::kF16, float>(weights.view, {})));
}

TEST(CudaDequantise, InfinitiesStay) {
  const std::vector<uint16_t> halves = {0x7c00, 0xfc00, 0x0001, 0x8001};
  const WeightView view{WeightType::kF16, reinterpret_cast<const std::byte*>(halves.data()), 1, 4, 8};
  EXPECT_TRUE(SameBits(Reference<float>(view, {}), Dequantised<WeightType::kF16, float>(view, {})));
}

}  // namespace
}  // namespace rondo::cuda
