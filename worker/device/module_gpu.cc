#include "worker/device/module_gpu.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/text.h"
#include "kernels/cuda/attention/element_type.h"

namespace rondo {
namespace {

// Sizes are rounded up to this, so that what one job freed fits the next.
constexpr size_t kGrain = size_t{2} << 20;

size_t Rounded(size_t bytes) { return (bytes + kGrain - 1) / kGrain * kGrain; }

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
  if (const int error = table->stream_create(&gpu->stream_); error != 0) return failed("cudaStreamCreate", error);
  return gpu;
}

ModuleGpu::~ModuleGpu() {
  if (stream_ == nullptr) return;
  Use();
  for (const auto& [memory, bytes] : owned_) table_->memory_free(const_cast<std::byte*>(memory));
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
  if (std::vector<void*>& idle = idle_[bytes]; !idle.empty()) {
    void* const memory = idle.back();
    idle.pop_back();
    return memory;
  }
  Use();
  void* memory = nullptr;
  if (table_->memory_alloc(&memory, bytes) != 0) {
    ReleaseIdle();
    if (table_->memory_alloc(&memory, bytes) != 0) return nullptr;
  }
  owned_.emplace(static_cast<const std::byte*>(memory), bytes);
  return memory;
}

void ModuleGpu::Free(void* p, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_[Rounded(bytes)].push_back(p);
}

void ModuleGpu::ReleaseIdle() {
  for (auto& [bytes, idle] : idle_) {
    std::vector<void*> kept;
    for (void* const memory : idle) {
      if (ask_before_free_ && !ask_before_free_(memory)) {
        kept.push_back(memory);
        continue;
      }
      owned_.erase(static_cast<const std::byte*>(memory));
      Check(table_->memory_free(memory), "cudaFree");
    }
    idle.swap(kept);
  }
}

bool ModuleGpu::Owns(const void* p) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto after = owned_.upper_bound(static_cast<const std::byte*>(p));
  if (after == owned_.begin()) return false;
  --after;
  return static_cast<const std::byte*>(p) < after->first + after->second;
}

void ModuleGpu::Copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  Use();
  Check(table_->copy_async(to, from, bytes, stream_), "cudaMemcpyAsync");
  Check(table_->stream_synchronize(stream_), "cudaStreamSynchronize");
}

bool ModuleGpu::HasHeadDim(int32_t head_dim) const {
  return std::find(std::begin(cuda::kHeadDims), std::end(cuda::kHeadDims), head_dim) != std::end(cuda::kHeadDims);
}

void ModuleGpu::Attend(cuda::AttentionArgs args, int32_t head_dim) {
  Use();
  rondo_cuda_attend_plan_v1 plan = {};
  table_->attend_plan(capability_, multiprocessors_, head_dim, args.query.rows, args.q_heads, args.keys.tokens, &plan);
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
