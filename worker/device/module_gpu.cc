#include "worker/device/module_gpu.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/text.h"
#include "kernels/cuda/attention/element_type.h"

namespace rondo {
namespace {

// Every address is a multiple of this; CUDA's own are multiples of 256.
constexpr size_t kGrain = 512;
// What the driver is asked for at least: its calls take long, and it counts in pages of 2 MiB.
constexpr size_t kStretch = size_t{32} << 20;

size_t Rounded(size_t bytes) { return (std::max<size_t>(bytes, 1) + kGrain - 1) / kGrain * kGrain; }

[[noreturn]] void Die(const std::string& what) {
  LogError("the GPU failed: ", what);
  std::_Exit(1);  // other threads may be inside the driver, which would keep exit handlers waiting
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModuleGpu>> ModuleGpu::Create(const rondo_cuda_module_v1* table, int device) {
  std::unique_ptr<ModuleGpu> gpu(new ModuleGpu(table, device));
  const auto failed = [&](const char* call, int error) {
    return absl::InternalError(absl::StrCat("GPU ", device, ": ", call, ": ", table->error_text(error)));
  };
  if (const int error = table->set_device(device); error != 0) return failed("cudaSetDevice", error);
  rondo_cuda_device_v1 facts = {};
  if (const int error = table->device_facts(device, &facts); error != 0)
    return failed("cudaGetDeviceProperties", error);
  gpu->capability_ = facts.capability;
  gpu->family_ = absl::StrCat("sm", facts.capability);
  gpu->multiprocessors_ = facts.multiprocessors;
  gpu->card_ = absl::StrCat(std::string(facts.name, strnlen(facts.name, sizeof(facts.name))), " with ",
                            facts.multiprocessors, " multiprocessors");
  // What it computes gives way to what others wait for on the wire.
  if (const int error = table->stream_create(&gpu->stream_, 0); error != 0) return failed("cudaStreamCreate", error);
  return gpu;
}

ModuleGpu::~ModuleGpu() {
  if (stream_ == nullptr) return;
  Use();
  for (std::byte* const memory : ranges_.stretches()) table_->memory_free(memory);
  if (scratch_ != nullptr) table_->memory_free(scratch_);
  table_->stream_destroy(stream_);
}

uint64_t ModuleGpu::free_bytes() const {
  Use();
  uint64_t free = 0, total = 0;
  Check(table_->memory_info(&free, &total), "cudaMemGetInfo");
  return free;
}

void ModuleGpu::Use() const { Check(table_->set_device(device_), "cudaSetDevice"); }

void ModuleGpu::Check(int error, const char* call) const {
  if (error != 0) Die(absl::StrCat("GPU ", device_, ": ", call, ": ", table_->error_text(error)));
}

void ModuleGpu::CheckLaunch(const char* words, const char* kernel) {
  if (words != nullptr) Die(absl::StrCat(kernel, ": ", words));
}

void* ModuleGpu::Allocate(size_t bytes) {
  bytes = Rounded(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::byte* const memory = ranges_.Take(bytes); memory != nullptr) return memory;
  Use();
  if (!AddStretch(std::max(bytes, kStretch)) && !AddStretch(bytes)) {
    ReleaseIdle();
    if (!AddStretch(bytes)) return nullptr;
  }
  return ranges_.Take(bytes);
}

void ModuleGpu::Free(void* p, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ranges_.Give(static_cast<std::byte*>(p), Rounded(bytes));
}

bool ModuleGpu::AddStretch(size_t bytes) {
  void* memory = nullptr;
  if (table_->memory_alloc(&memory, bytes) != 0) return false;
  ranges_.Add(static_cast<std::byte*>(memory), bytes);
  return true;
}

void ModuleGpu::ReleaseIdle() {
  const auto may_go = [this](std::byte* memory) { return !ask_before_free_ || ask_before_free_(memory); };
  for (std::byte* const memory : ranges_.RemoveIdle(may_go)) Check(table_->memory_free(memory), "cudaFree");
}

bool ModuleGpu::Owns(const void* p) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ranges_.Owns(p);
}

void ModuleGpu::Copy(void* to, const void* from, size_t bytes) {
  const MemoryCopy copy{to, from, bytes};
  if (bytes > 0) CopyAll({&copy, 1});
}

void ModuleGpu::CopyAll(std::span<const MemoryCopy> copies) {
  Use();
  for (const MemoryCopy& copy : copies) {
    if (copy.bytes == 0) continue;
    Check(table_->copy_async(copy.to, copy.from, copy.bytes, stream_), "cudaMemcpyAsync");
  }
  Check(table_->stream_synchronize(stream_), "cudaStreamSynchronize");
}

bool ModuleGpu::HasHeadDim(int32_t head_dim) const {
  return std::find(std::begin(cuda::kHeadDims), std::end(cuda::kHeadDims), head_dim) != std::end(cuda::kHeadDims);
}

void ModuleGpu::Attend(cuda::AttentionArgs args, int32_t head_dim) {
  Use();
  rondo_cuda_attend_plan_v1 plan = {};
  table_->attend_plan(capability_, std::max(1, multiprocessors_ - left_), head_dim, args.query.rows, args.q_heads,
                      args.keys.tokens, &plan);
  const auto bytes = static_cast<size_t>(plan.scratch_bytes);
  if (bytes > scratch_bytes_) {
    if (scratch_ != nullptr) Check(table_->memory_free(scratch_), "cudaFree");
    Check(table_->memory_alloc(&scratch_, bytes), "cudaMalloc of scratch");
    scratch_bytes_ = bytes;
  }
  args.scratch = static_cast<float*>(scratch_);
  CheckLaunch(table_->attend(head_dim, &args, &plan, stream_), "attend");
}

void ModuleGpu::Decode(const cuda::DecodeArgs& args, int64_t items, int32_t head_dim) {
  Use();
  CheckLaunch(table_->decode(head_dim, &args, items, stream_), "decode");
}

void ModuleGpu::Merge(const cuda::NodeArgs& left, const cuda::NodeArgs& right, int64_t rows, int32_t heads,
                      int32_t head_dim) {
  Use();
  CheckLaunch(table_->merge(head_dim, &left, &right, rows, heads, stream_), "merge");
}

void ModuleGpu::Finish(const cuda::NodeArgs& root, const cuda::OutputArgs& output, int64_t rows, int32_t heads,
                       int32_t head_dim) {
  Use();
  CheckLaunch(table_->finish(head_dim, &root, &output, rows, heads, stream_), "finish");
}

}  // namespace rondo
