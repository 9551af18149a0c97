// A GPU by the module's table: what it keeps, what it gives back and whom it asks, and which kernels it launches.
#include "worker/device/module_gpu.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/worker/device/fake_table.h"

namespace rondo::testing {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class ModuleGpuTest : public ::testing::Test {
 protected:
  ModuleGpuTest() {
    Fake() = {};
    Fake().room = 8 * kMiB;
    gpu_ = ModuleGpu::Create(FakeModule(), 0).value();
  }
  ~ModuleGpuTest() override {
    gpu_.reset();
    EXPECT_EQ(Fake().allocated, 0) << "device memory was left";
  }
  std::unique_ptr<ModuleGpu> gpu_;
};

TEST_F(ModuleGpuTest, WhatIsFreedServesAnySize) {
  Fake().room = 100 * kMiB;
  void* const all = gpu_->Allocate(31 * kMiB);
  EXPECT_FALSE(gpu_->Owns(static_cast<std::byte*>(all) + 32 * kMiB)) << "whole pages of 2 MiB";
  gpu_->Free(all, 31 * kMiB);
  void* const a = gpu_->Allocate(20 * kMiB);
  void* const b = gpu_->Allocate(11 * kMiB);
  EXPECT_EQ(a, all);
  EXPECT_TRUE(gpu_->Owns(b));
  EXPECT_EQ(Fake().memory.size(), 1u);
  gpu_->Free(a, 20 * kMiB);
  gpu_->Free(b, 11 * kMiB);
  EXPECT_EQ(gpu_->Allocate(32 * kMiB), all);
  EXPECT_EQ(Fake().memory.size(), 1u);
}

TEST_F(ModuleGpuTest, SmallPiecesKeepOutOfLargeRanges) {
  Fake().room = 100 * kMiB;
  void* const large = gpu_->Allocate(30 * kMiB);
  gpu_->Free(large, 30 * kMiB);
  void* const small = gpu_->Allocate(100);
  void* const another = gpu_->Allocate(kMiB);
  EXPECT_EQ(Fake().memory.size(), 2u) << "one stretch for both";
  EXPECT_EQ(gpu_->Allocate(30 * kMiB), large);
  EXPECT_TRUE(gpu_->Owns(small));
  EXPECT_EQ(static_cast<std::byte*>(another) - static_cast<std::byte*>(small), 512);
}

TEST_F(ModuleGpuTest, WhatIsReservedIsThereForAnySequence) {
  Fake().room = 64 * kMiB;
  EXPECT_TRUE(gpu_->Reserve(60 * kMiB));
  EXPECT_FALSE(gpu_->Reserve(60 * kMiB));
  gpu_->BeforeFree([](void*) { return false; });
  for (const uint64_t mib : {10, 15, 22, 33, 50, 60}) {
    void* const kv = gpu_->Allocate(mib * kMiB);
    EXPECT_NE(kv, nullptr) << mib;
    gpu_->Free(kv, mib * kMiB);
  }
  EXPECT_EQ(Fake().memory.size(), 1u);
}

TEST_F(ModuleGpuTest, HeadSizesThatItCannotRun) {
  Fake().refused_head_dims = {256};
  const auto small = ModuleGpu::Create(FakeModule(), 0).value();
  EXPECT_TRUE(small->HasHeadDim(128));
  EXPECT_FALSE(small->HasHeadDim(256));
  EXPECT_FALSE(small->HasHeadDim(72));
  Fake().refused_head_dims = {64, 80, 96, 128, 256};
  EXPECT_EQ(ModuleGpu::Create(FakeModule(), 3).status(), absl::FailedPreconditionError("GPU 3: no room for it"));
}

TEST_F(ModuleGpuTest, WithoutItsOwnKernelItIsAFamilyOfItsOwn) {
  gpu_->Attend({}, 128);
  EXPECT_EQ(Fake().kernel, 90);
  EXPECT_EQ(gpu_->family(), "sm90");
  Fake().refuses_maps = true;
  const auto older = ModuleGpu::Create(FakeModule(), 0).value();
  older->Attend({}, 128);
  EXPECT_EQ(Fake().kernel, 80);
  EXPECT_EQ(older->family(), "sm90-as-sm80");
  EXPECT_TRUE(older->HasHeadDim(64));
}

TEST_F(ModuleGpuTest, WhenThereIsNoMoreIdleMemoryGoesBackUnlessSomebodyMinds) {
  void* const held = gpu_->Allocate(2 * kMiB);
  void* const idle = gpu_->Allocate(2 * kMiB);
  void* const sent = gpu_->Allocate(2 * kMiB);
  gpu_->Free(idle, 2 * kMiB);
  gpu_->Free(sent, 2 * kMiB);
  std::set<void*> asked;
  gpu_->BeforeFree([&](void* memory) {
    asked.insert(memory);
    return memory != sent;
  });
  void* const larger = gpu_->Allocate(4 * kMiB);  // two are left, and two go back
  EXPECT_NE(larger, nullptr);
  EXPECT_EQ(asked, (std::set<void*>{idle, sent}));
  EXPECT_FALSE(gpu_->Owns(idle));
  EXPECT_TRUE(gpu_->Owns(sent));
  EXPECT_EQ(gpu_->Allocate(4 * kMiB), nullptr) << "what may not go back is no memory for others";
  EXPECT_EQ(gpu_->Allocate(2 * kMiB), sent);
  EXPECT_TRUE(gpu_->Owns(held));
}

TEST_F(ModuleGpuTest, LaunchesReachTheKernelsOfTheirKind) {
  cuda::AttentionArgs many;
  many.query.rows = 1000;
  gpu_->Attend(many, 128);
  many.query.rows = 10;
  gpu_->Attend(many, 128);
  EXPECT_EQ(Fake().memory.size(), 1u) << "the scratch is there already";
  EXPECT_EQ(Fake().calls["attend"], 2);
  EXPECT_EQ(Fake().calls["decode"], 0);
  gpu_->Decode({}, 24, 64);
  EXPECT_EQ(Fake().calls["attend"], 2);
  EXPECT_EQ(Fake().calls["decode"], 1);
  EXPECT_EQ(Fake().stream, gpu_->stream());
}

TEST_F(ModuleGpuTest, AttendLeavesMultiprocessorsToOthers) {
  gpu_->Attend({}, 128);
  EXPECT_EQ(Fake().ctas, 132);
  gpu_->LeaveMultiprocessors(8);
  gpu_->Attend({}, 128);
  EXPECT_EQ(Fake().ctas, 124);
}

}  // namespace
}  // namespace rondo::testing
