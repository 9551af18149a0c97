// The GPU module's table as a GPU with dense kernels and pinned memory: every launch on the one stream, every failure
// with its words.
#include "worker/device/module_dense.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/worker/device/fake_table.h"

namespace rondo::testing {
namespace {

class ModuleDenseTest : public ::testing::Test {
 protected:
  ModuleDenseTest() {
    Fake() = {};
    gpu_ = ModuleGpu::Create(FakeModule(), 0).value();
    dense_ = ModuleDense::Create(FakeModule(), *gpu_).value();
  }
  std::unique_ptr<ModuleGpu> gpu_;
  std::unique_ptr<ModuleDense> dense_;
};

const std::pair<const char*, std::function<void(ModuleDense&)>> kLaunches[] = {
    {"rms_norm", [](ModuleDense& d) { d.RmsNorm({}); }},
    {"rope", [](ModuleDense& d) { d.Rope({}, RopePairing::kHalves); }},
    {"gated_activation", [](ModuleDense& d) { d.GatedActivation({}, GateKind::kSilu); }},
    {"move_rows", [](ModuleDense& d) { d.MoveRows({}); }},
    {"dequantise", [](ModuleDense& d) { d.Dequantise({}, WeightType::kF32, cuda::RowType::kBf16); }},
    {"pack_weight", [](ModuleDense& d) { d.PackWeight({}, WeightType::kQ8_0); }},
    {"matmul_few_rows", [](ModuleDense& d) { d.MatMulFewRows({}, WeightType::kQ8_0); }},
    {"lt_matmul", [](ModuleDense& d) { d.LtMatMul({}); }},
};

TEST_F(ModuleDenseTest, EveryKernelGoesOnTheGpusStream) {
  for (const auto& [name, launch] : kLaunches) {
    Fake().stream = nullptr;
    launch(*dense_);
    EXPECT_EQ(Fake().calls[name], 1) << name;
    EXPECT_EQ(Fake().stream, gpu_->stream()) << name;
  }
}

TEST_F(ModuleDenseTest, AKernelThatFailsEndsTheProcessWithItsWords) {
  for (const auto& [name, launch] : kLaunches) {
    Fake().fail = name;
    EXPECT_EXIT(launch(*dense_), ::testing::ExitedWithCode(1), "the GPU failed: .*CUDA: an illegal address") << name;
  }
}

TEST_F(ModuleDenseTest, SaysWhoseBitsItHas) {
  EXPECT_EQ(dense_->family(), "sm90");
  EXPECT_EQ(dense_->library(), "cuBLASLt 13.1.2");
  EXPECT_EQ(gpu_->card(), "a card with 132 multiprocessors");
}

TEST_F(ModuleDenseTest, WhatTheLibraryLacksIsAStatus) {
  EXPECT_TRUE(dense_->PrepareLtMatMul(8, 8).ok());
  Fake().fail = "lt_prepare";
  EXPECT_EQ(dense_->PrepareLtMatMul(8, 8), absl::UnimplementedError("cuBLASLt has no algorithm"));
  Fake().fail = "lt_create";
  EXPECT_EQ(ModuleDense::Create(FakeModule(), *gpu_).status(),
            absl::InternalError("cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED"));
}

TEST_F(ModuleDenseTest, FreeMemoryIsThatOfNow) {
  EXPECT_EQ(dense_->free_bytes(), 1000u);
  Fake().free_bytes = 7;
  EXPECT_EQ(dense_->free_bytes(), 7u);
}

TEST_F(ModuleDenseTest, RowsCrossInPinnedMemoryWhereThereIsSuch) {
  TensorMemory& staging = gpu_->staging();
  EXPECT_TRUE(staging.is_host());
  void* const pinned = staging.Allocate(100);
  EXPECT_EQ(Fake().pinned, 1);
  Fake().fail = "pinned";
  void* const ordinary = staging.Allocate(100);
  ASSERT_NE(ordinary, nullptr);
  std::memset(ordinary, 1, 100);
  staging.Free(pinned, 100);
  EXPECT_EQ(Fake().pinned, 0);
  staging.Free(ordinary, 100);
  EXPECT_EQ(Fake().pinned, 0);
}

TEST_F(ModuleDenseTest, CopiesTogetherAreWaitedForOnce) {
  const int from[3] = {1, 2, 3};
  int to[3] = {};
  const MemoryCopy copies[] = {{&to[0], &from[0], 4}, {&to[1], &from[1], 0}, {&to[2], &from[2], 4}};
  gpu_->CopyAll(copies);
  EXPECT_EQ(to[0] + to[1] + to[2], 4);
  EXPECT_EQ(Fake().copies, 2);
  EXPECT_EQ(Fake().waits, 1);
  gpu_->Copy(to, from, 12);
  EXPECT_EQ(to[1], 2);
  EXPECT_EQ(Fake().waits, 2);
  gpu_->Copy(to, from, 0);
  EXPECT_EQ(Fake().waits, 2);
  for (const char* call : {"copy", "synchronize"}) {
    Fake().fail = call;
    EXPECT_EXIT(gpu_->CopyAll(copies), ::testing::ExitedWithCode(1), "the GPU failed: GPU 0: cuda.*: out of memory");
  }
}

TEST_F(ModuleDenseTest, EverythingIsGivenBack) {
  gpu_->Free(gpu_->Allocate(100), 100);
  EXPECT_GT(Fake().allocated, 0);
  dense_ = nullptr;
  gpu_ = nullptr;
  EXPECT_EQ(Fake().allocated, 0);
}

}  // namespace
}  // namespace rondo::testing
