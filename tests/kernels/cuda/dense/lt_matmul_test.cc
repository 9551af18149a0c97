// LtMatMul over a fake cuBLASLt: layouts, chunks, the choice of the algorithm, errors. What the library computes on a
// card is not seen here.
#include "kernels/cuda/dense/lt_matmul.h"

#include <cmath>
#include <limits>

#include "tests/kernels/cuda/dense/emulated.h"
#include "tests/kernels/cuda/dense/fake_cublaslt.h"

namespace rondo::cuda {
namespace {

std::unique_ptr<LtMatMul> Create() {
  Fake() = {};
  absl::StatusOr<std::unique_ptr<LtMatMul>> made = LtMatMul::Create();
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

template <class Element, class Y>
struct Case {
  using Memory = typename Kept<Element>::Memory;
  using YMemory = typename Kept<Y>::Memory;
  static constexpr RowType TypeOf(bool is_float, bool is_bf16) {
    return is_float ? RowType::kF32 : is_bf16 ? RowType::kBf16 : RowType::kFp16;
  }

  Case(int64_t rows, int64_t n, int64_t k)
      : weight(Kept<Element>::From(Uniform(n * k, 1, 21))),
        x(Kept<Element>::From(Uniform(rows * k, 1, 22))),
        y(Poisoned<YMemory>(LtPaddedRows(rows) * n)) {
    // Padding that must not matter.
    x.resize(LtPaddedRows(rows) * k, Kept<Element>::From(std::numeric_limits<float>::quiet_NaN()));
    constexpr bool kBf16 = std::is_same_v<Element, gpu::Bf16>;
    args = {.type = TypeOf(false, kBf16),
            .y_type = TypeOf(Kept<Y>::kIsFloat, kBf16),
            .weight = weight.data(),
            .x = x.data(),
            .y = y.data(),
            .rows = rows,
            .n = n,
            .k = k};
  }

  void ExpectRight(LtMatMul& matmul) {
    const absl::Status status = matmul.Run(args, nullptr);
    ASSERT_TRUE(status.ok()) << status;
    for (int64_t i = 0; i < args.rows; ++i) {
      for (int64_t r = 0; r < args.n; ++r) {
        double sum = 0;
        for (int64_t j = 0; j < args.k; ++j) {
          sum += double{Kept<Element>::To(weight[r * args.k + j])} * Kept<Element>::To(x[i * args.k + j]);
        }
        ASSERT_NEAR(sum, Kept<Y>::To(y[i * args.n + r]), std::fabs(sum) * Kept<Y>::kRounding + 1e-5) << i << " " << r;
      }
    }
  }

  std::vector<Memory> weight, x;
  std::vector<YMemory> y;
  LtMatMulArgs args;
};

TEST(LtMatMul, ProductsOfEveryType) {
  const auto matmul = Create();
  Case<gpu::Bf16, float>(5, 24, 40).ExpectRight(*matmul);
  Case<gpu::Fp16, float>(5, 24, 40).ExpectRight(*matmul);
  Case<gpu::Bf16, gpu::Bf16>(5, 24, 40).ExpectRight(*matmul);
  Case<gpu::Fp16, gpu::Fp16>(5, 24, 40).ExpectRight(*matmul);
}

TEST(LtMatMul, RowsGoInChunksOfOneSizeWithOneAlgorithmAShape) {
  const auto matmul = Create();
  EXPECT_TRUE(matmul->Prepare(RowType::kBf16, RowType::kF32, 16, 8).ok());
  for (const int64_t rows : {0, 1, 127, 128, 129, 300}) {
    Fake().products = 0;
    Case<gpu::Bf16, float>(rows, 16, 8).ExpectRight(*matmul);
    EXPECT_EQ((rows + 127) / 128, Fake().products);
  }
  EXPECT_EQ(kLtRows, Fake().columns);
  EXPECT_EQ(1, Fake().heuristics);
  Case<gpu::Bf16, float>(3, 16, 16).ExpectRight(*matmul);
  Case<gpu::Bf16, gpu::Bf16>(3, 16, 16).ExpectRight(*matmul);
  EXPECT_EQ(3, Fake().heuristics);
}

TEST(LtMatMul, APreparedShapeIsNotChosenAgain) {
  const auto matmul = Create();
  EXPECT_TRUE(matmul->Prepare(RowType::kBf16, RowType::kF32, 16, 8).ok());
  EXPECT_EQ(1, Fake().heuristics);
  EXPECT_EQ(1, Fake().products) << "it is tried";
  Case<gpu::Bf16, float>(3, 16, 8).ExpectRight(*matmul);
  EXPECT_EQ(1, Fake().heuristics);
  EXPECT_EQ("matmul: k is 12, must be a positive multiple of 8",
            matmul->Prepare(RowType::kBf16, RowType::kF32, 16, 12).message());
  Fake().only_split = true;
  EXPECT_EQ("cuBLASLt has no algorithm that treats all rows alike for n 24, k 8, 128 rows",
            matmul->Prepare(RowType::kBf16, RowType::kF32, 24, 8).message());
}

TEST(LtMatMul, AnAlgorithmThatDoesNotTreatRowsAlikeIsPassedOver) {
  const auto matmul = Create();
  Fake().uneven = true;
  EXPECT_TRUE(matmul->Prepare(RowType::kBf16, RowType::kF32, 16, 8).ok());
  EXPECT_EQ(2, Fake().products) << "two were tried";
  Case<gpu::Bf16, float>(128, 16, 8).ExpectRight(*matmul);
}

TEST(LtMatMul, EverythingIsGivenBack) {
  {
    const auto matmul = Create();
    Case<gpu::Bf16, float>(3, 16, 8).ExpectRight(*matmul);
    EXPECT_GT(Fake().live, 0);
  }
  EXPECT_EQ(0, Fake().live);
}

TEST(LtMatMul, NoAlgorithmWithoutSplitK) {
  const auto matmul = Create();
  Fake().only_split = true;
  const Case<gpu::Bf16, float> c(3, 16, 8);
  EXPECT_EQ("cuBLASLt has no algorithm that treats all rows alike for n 16, k 8, 128 rows",
            matmul->Run(c.args, nullptr).message());
  EXPECT_EQ(0, Fake().products);
}

TEST(LtMatMul, WhatFailsIsNamed) {
  const auto matmul = Create();
  const Case<gpu::Bf16, float> c(3, 16, 8);
  const auto message = [&](auto change) {
    LtMatMulArgs args = c.args;
    change(args);
    const absl::Status status = matmul->Run(args, nullptr);
    EXPECT_EQ(absl::StatusCode::kInvalidArgument, status.code());
    return std::string(status.message());
  };
  EXPECT_EQ("matmul: n is 12, must be a positive multiple of 8", message([](LtMatMulArgs& a) { a.n = 12; }));
  EXPECT_EQ("matmul: k is 0, must be a positive multiple of 8", message([](LtMatMulArgs& a) { a.k = 0; }));
  EXPECT_EQ("matmul: rows is -1, must be 0 or more", message([](LtMatMulArgs& a) { a.rows = -1; }));
  EXPECT_EQ("matmul: type is f32, must be bf16 or fp16", message([](LtMatMulArgs& a) { a.type = RowType::kF32; }));
  EXPECT_EQ("matmul: y_type is fp16, must be f32 or bf16", message([](LtMatMulArgs& a) { a.y_type = RowType::kFp16; }));
  EXPECT_EQ("matmul: x is at 8, must be on 16 bytes",
            message([](LtMatMulArgs& a) { a.x = reinterpret_cast<const void*>(8); }));
  Fake().fail_create = true;
  EXPECT_EQ("cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED", LtMatMul::Create().status().message());
}

}  // namespace
}  // namespace rondo::cuda
