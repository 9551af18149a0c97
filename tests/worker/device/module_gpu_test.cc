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
  void* const a = gpu_->Allocate(20 * kMiB);
  void* const b = gpu_->Allocate(10 * kMiB);
  EXPECT_EQ(Fake().memory.size(), 1u) << "cut out of one stretch";
  EXPECT_TRUE(gpu_->Owns(b));
  EXPECT_FALSE(gpu_->Owns(static_cast<std::byte*>(a) + 32 * kMiB));
  gpu_->Free(a, 20 * kMiB);
  gpu_->Free(b, 10 * kMiB);
  EXPECT_EQ(gpu_->Allocate(31 * kMiB), a);
  EXPECT_EQ(Fake().memory.size(), 1u);
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
