#include "worker/device/module_gpu.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/text.h"
#include "kernels/cuda/attention/element_type.h"

namespace rondo {
namespace {

// Small pieces are cut from stretches of their own: they live long, and one of them in the middle of a large range
// would keep it from the next sequence. Large ones are rounded to the pages that the driver counts in.
constexpr size_t kSmallest = 512;  // CUDA's own addresses are multiples of 256
constexpr size_t kPage = size_t{2} << 20;
constexpr size_t kSmallStretch = size_t{32} << 20;

bool IsSmall(size_t bytes) { return bytes <= 2 * kPage; }

size_t Rounded(size_t bytes) {
  const size_t grain = IsSmall(bytes) ? kSmallest : kPage;
  return (std::max<size_t>(bytes, 1) + grain - 1) / grain * grain;
}

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
  gpu->multiprocessors_ = facts.multiprocessors;
  gpu->card_ = absl::StrCat(std::string(facts.name, strnlen(facts.name, sizeof(facts.name))), " with ",
                            facts.multiprocessors, " multiprocessors");
  if (absl::Status status = gpu->ChooseKernels(facts.capability); !status.ok()) return status;
  // What it computes gives way to what others wait for on the wire.
  if (const int error = table->stream_create(&gpu->stream_, 0); error != 0) return failed("cudaStreamCreate", error);
  return gpu;
}

// A driver may refuse the tensor maps of the kernel for capability 9.0; the older kernel then serves, as a family of
// its own, for it gives other bits.
absl::Status ModuleGpu::ChooseKernels(int32_t capability) {
  constexpr int32_t kAnyGpu = 80;
  attend_capability_ = capability;
  family_ = absl::StrCat("sm", capability);
  std::string why;
  for (const int head_dim : cuda::kHeadDims) {
    if (const char* const wrong = table_->attend_check(kAnyGpu, head_dim); wrong != nullptr) {
      why = wrong;
      continue;
    }
    head_dims_.push_back(head_dim);
    const char* const wrong = table_->attend_check(attend_capability_, head_dim);
    if (wrong == nullptr) continue;
    LogWarning("GPU ", device_, ": the attention kernel for its capability cannot be used (", wrong,
               "); the one for 8.0 is, which is slower");
    attend_capability_ = kAnyGpu;
    absl::StrAppend(&family_, "-as-sm", kAnyGpu);
  }
  if (!head_dims_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("GPU ", device_, ": ", why));
}

ModuleGpu::~ModuleGpu() {
  if (stream_ == nullptr) return;
  Use();
  for (const FreeRanges* const ranges : {&small_, &large_}) {
    for (std::byte* const memory : ranges->stretches()) table_->memory_free(memory);
  }
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
  FreeRanges& ranges = RangesFor(bytes);
  bytes = Rounded(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::byte* const memory = ranges.Take(bytes); memory != nullptr) return memory;
  Use();
  if (!(IsSmall(bytes) && AddStretch(ranges, kSmallStretch)) && !AddStretch(ranges, bytes)) {
    ReleaseIdle();
    if (!AddStretch(ranges, bytes)) return nullptr;
  }
  return ranges.Take(bytes);
}

void ModuleGpu::Free(void* p, size_t bytes) {
  FreeRanges& ranges = RangesFor(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  ranges.Give(static_cast<std::byte*>(p), Rounded(bytes));
}

bool ModuleGpu::Reserve(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Use();
  return AddStretch(large_, Rounded(bytes));
}

FreeRanges& ModuleGpu::RangesFor(size_t bytes) { return IsSmall(bytes) ? small_ : large_; }

bool ModuleGpu::AddStretch(FreeRanges& ranges, size_t bytes) {
  void* memory = nullptr;
  if (table_->memory_alloc(&memory, bytes) != 0) return false;
  ranges.Add(static_cast<std::byte*>(memory), bytes);
  return true;
}

void ModuleGpu::ReleaseIdle() {
  const auto may_go = [this](std::byte* memory) { return !ask_before_free_ || ask_before_free_(memory); };
  for (FreeRanges* const ranges : {&small_, &large_}) {
    for (std::byte* const memory : ranges->RemoveIdle(may_go)) Check(table_->memory_free(memory), "cudaFree");
  }
}

bool ModuleGpu::Owns(const void* p) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return small_.Owns(p) || large_.Owns(p);
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
  return std::find(head_dims_.begin(), head_dims_.end(), head_dim) != head_dims_.end();
}

void ModuleGpu::Attend(cuda::AttentionArgs args, int32_t head_dim) {
  Use();
  rondo_cuda_attend_plan_v1 plan = {};
  table_->attend_plan(attend_capability_, std::max(1, multiprocessors_ - left_), head_dim, args.query.rows,
                      args.q_heads, args.keys.tokens, &plan);
  args.scratch = static_cast<float*>(Scratch(static_cast<size_t>(plan.scratch_bytes)));
  CheckLaunch(table_->attend(head_dim, &args, &plan, stream_), "attend");
}

void* ModuleGpu::Scratch(size_t bytes) {
  if (bytes <= scratch_bytes_) return scratch_;
  if (scratch_ != nullptr) {
    Check(table_->stream_synchronize(stream_), "cudaStreamSynchronize");  // a kernel may be at work in it
    Free(scratch_, scratch_bytes_);
  }
  scratch_ = Allocate(bytes);
  if (scratch_ == nullptr) Die(absl::StrCat("no ", bytes, " bytes of device memory for attention's nodes"));
  scratch_bytes_ = bytes;
  return scratch_;
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
