// The kernels of the GPU module as its table has them; used by runtime.cc. Without nvcc there are none.
#pragma once

#include <cstdint>

#include "kernels/cuda/module.h"

#if RONDO_HAVE_CUDA_KERNELS
#include <bit>
#include <string>

#include "kernels/cuda/attention/attention.h"
#include "rondo/canonical.h"
#endif

namespace rondo::cuda_module {

#if RONDO_HAVE_CUDA_KERNELS

constexpr int32_t LeafLevel(int64_t block_tokens) {
  return std::countr_zero(static_cast<uint64_t>(block_tokens) / static_cast<uint64_t>(rondo::kBlockTokens));
}
inline constexpr int32_t kLeafLevel = LeafLevel(cuda::kBlockTokens);
inline constexpr int32_t kDrawnLeafLevel = LeafLevel(cuda::kDecodeBlockTokens);
inline constexpr const char* kTargets = "sm_80 sm_90a sm_100a compute_90";

// Words of the last call that failed, by thread.
inline const char* Words(std::string error) {
  thread_local std::string words;
  words = std::move(error);
  return words.empty() ? nullptr : words.c_str();
}

inline void AttendPlan(int32_t capability, int32_t multiprocessors, int32_t head_dim, int64_t rows, int32_t q_heads,
                       int64_t key_tokens, rondo_cuda_attend_plan_v1* plan) {
  const cuda::AttendKernel kernel = cuda::ChooseAttendKernel(capability, head_dim);
  const cuda::AttendPlan made = cuda::PlanAttend(kernel, head_dim, rows, q_heads, key_tokens, multiprocessors);
  *plan = {static_cast<int32_t>(made.kernel), made.ctas, made.scratch_bytes};
}
inline const char* Attend(int32_t head_dim, const cuda::AttentionArgs* args, const rondo_cuda_attend_plan_v1* plan,
                          void* stream) {
  return Words(cuda::Attend(cuda::ElementType::kBf16, head_dim, *args,
                            {static_cast<cuda::AttendKernel>(plan->kernel), plan->ctas, plan->scratch_bytes}, stream));
}
inline const char* Merge(int32_t head_dim, const cuda::NodeArgs* left, const cuda::NodeArgs* right, int64_t rows,
                         int32_t heads, void* stream) {
  return Words(cuda::MergeNodes(head_dim, *left, *right, rows, heads, stream));
}
inline const char* Finish(int32_t head_dim, const cuda::NodeArgs* root, const cuda::OutputArgs* output, int64_t rows,
                          int32_t heads, void* stream) {
  return Words(cuda::FinishNodes(cuda::ElementType::kBf16, head_dim, *root, *output, rows, heads, stream));
}
inline const char* Decode(int32_t head_dim, const cuda::DecodeArgs* args, int64_t items, void* stream) {
  return Words(cuda::Decode(cuda::ElementType::kBf16, head_dim, *args, items, stream));
}

inline const char* AttendCheck(int32_t capability, int32_t head_dim) {
  return Words(cuda::CheckDevice(capability, head_dim));
}

inline constexpr auto* kAttendCheck = &AttendCheck;
inline constexpr auto* kAttendPlan = &AttendPlan;
inline constexpr auto* kAttend = &Attend;
inline constexpr auto* kMerge = &Merge;
inline constexpr auto* kFinish = &Finish;
inline constexpr auto* kDecode = &Decode;

#else

inline constexpr int32_t kLeafLevel = 0;
inline constexpr int32_t kDrawnLeafLevel = 0;
inline constexpr const char* kTargets = "";
inline constexpr decltype(rondo_cuda_module_v1::attend_check) kAttendCheck = nullptr;
inline constexpr decltype(rondo_cuda_module_v1::attend_plan) kAttendPlan = nullptr;
inline constexpr decltype(rondo_cuda_module_v1::attend) kAttend = nullptr;
inline constexpr decltype(rondo_cuda_module_v1::merge) kMerge = nullptr;
inline constexpr decltype(rondo_cuda_module_v1::finish) kFinish = nullptr;
inline constexpr decltype(rondo_cuda_module_v1::decode) kDecode = nullptr;

#endif

}  // namespace rondo::cuda_module
