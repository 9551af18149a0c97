// A GPU by the module's table, over a table of host functions: what it keeps, what it gives back and whom it asks, and
// that launches reach the kernels of the table.
#include "worker/device/module_gpu.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

namespace rondo {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// The device behind the table: so much memory, and what was asked of it.
struct Device {
  uint64_t free_bytes = 8 * kMiB;
  std::map<void*, uint64_t> memory;
  std::vector<std::string> launches;
};
Device* device = nullptr;  // the table's functions carry no context

int Fine(int) { return 0; }
int Facts(int, rondo_cuda_device_v1* facts) {
  *facts = {};
  facts->capability = 90;
  facts->multiprocessors = 132;
  return 0;
}
int MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) {
  *free_bytes = *total_bytes = device->free_bytes;
  return 0;
}
int StreamCreate(void** stream) {
  *stream = device;
  return 0;
}
int StreamFine(void*) { return 0; }
int Alloc(void** memory, uint64_t bytes) {
  if (bytes > device->free_bytes) return 2;
  device->free_bytes -= bytes;
  *memory = std::aligned_alloc(256, bytes);
  device->memory[*memory] = bytes;
  return 0;
}
int Free(void* memory) {
  device->free_bytes += device->memory.at(memory);
  device->memory.erase(memory);
  std::free(memory);
  return 0;
}
int Copy(void* to, const void* from, uint64_t bytes, void*) {
  std::memcpy(to, from, bytes);
  return 0;
}
int64_t Plan(int32_t, int64_t rows, int32_t, int64_t, int32_t multiprocessors, int32_t* ctas) {
  *ctas = multiprocessors;
  return rows * 1024;
}
const char* Attend(int32_t head_dim, const cuda::AttentionArgs* args, int32_t ctas, int64_t scratch_bytes, void*) {
  EXPECT_GE(device->memory.at(args->scratch), static_cast<uint64_t>(scratch_bytes));
  device->launches.push_back("attend " + std::to_string(head_dim) + " on " + std::to_string(ctas));
  return nullptr;
}
const char* Decode(int32_t head_dim, const cuda::DecodeArgs* args, int64_t items, void*) {
  device->launches.push_back("decode " + std::to_string(head_dim) + ", " + std::to_string(args->rows) + " rows, " +
                             std::to_string(items) + " items");
  return nullptr;
}
const char* Words(int) { return "no memory"; }

class ModuleGpuTest : public ::testing::Test {
 protected:
  ModuleGpuTest() {
    device = &own_;
    table_.leaf_level = 4;
    table_.error_text = Words;
    table_.set_device = Fine;
    table_.device_facts = Facts;
    table_.memory_info = MemoryInfo;
    table_.stream_create = StreamCreate;
    table_.stream_destroy = StreamFine;
    table_.stream_synchronize = StreamFine;
    table_.memory_alloc = Alloc;
    table_.memory_free = Free;
    table_.copy_async = Copy;
    table_.attend_plan = Plan;
    table_.attend = Attend;
    table_.decode = Decode;
    gpu_ = *ModuleGpu::Create(&table_, 0);
  }
  ~ModuleGpuTest() override {
    gpu_.reset();
    EXPECT_TRUE(own_.memory.empty()) << "device memory was left";
    device = nullptr;
  }

  Device own_;
  rondo_cuda_module_v1 table_ = {};
  std::unique_ptr<ModuleGpu> gpu_;
};

TEST_F(ModuleGpuTest, FreedMemoryIsKeptForTheNext) {
  void* const first = gpu_->Allocate(3 * kMiB);
  gpu_->Free(first, 3 * kMiB);
  EXPECT_EQ(gpu_->Allocate(3 * kMiB + 5), first) << "both are 4 MiB in whole grains";
  EXPECT_TRUE(gpu_->Owns(static_cast<std::byte*>(first) + 4 * kMiB - 1));
  EXPECT_FALSE(gpu_->Owns(static_cast<std::byte*>(first) + 4 * kMiB));
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
  many.query.rows = 10;  // the scratch is there
  gpu_->Attend(many, 128);
  cuda::DecodeArgs few;
  few.rows = 3;
  gpu_->Decode(few, 24, 64);
  EXPECT_EQ(own_.launches,
            (std::vector<std::string>{"attend 128 on 132", "attend 128 on 132", "decode 64, 3 rows, 24 items"}));
  EXPECT_EQ(own_.memory.size(), 1u);
}

}  // namespace
}  // namespace rondo
