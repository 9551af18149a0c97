#include <cuda_runtime_api.h>

#include "bench/gpu/attention_under_test.h"
#include "bench/gpu/decode_under_test.h"
#include "bench/gpu/device_memory.h"
#include "kernels/cuda/attention/attention.h"

namespace rondo::gpu_check {
namespace {

constexpr auto kType = cuda::ElementType::kBf16;

int Attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  Require(cudaGetDevice(&device), "cudaGetDevice");
  Require(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

template <cuda::AttendKernel kKernel>
cuda::AttendPlan PlanFor(const cuda::AttentionArgs& args, int head_dim) {
  static const int multiprocessors = Attribute(cudaDevAttrMultiProcessorCount);
  return cuda::PlanAttend(kKernel, head_dim, args.query.rows, args.q_heads, args.keys.tokens, multiprocessors);
}

template <cuda::AttendKernel kKernel>
int64_t Scratch(const cuda::AttentionArgs& args, int head_dim) {
  return PlanFor<kKernel>(args, head_dim).scratch_bytes / 4;
}

template <cuda::AttendKernel kKernel>
std::string Launch(const cuda::AttentionArgs& args, int head_dim) {
  return cuda::Attend(kType, head_dim, args, PlanFor<kKernel>(args, head_dim), nullptr);
}

template <cuda::AttendKernel kKernel>
AttentionKernel Prefill(const char* name, const std::vector<int>& head_dims) {
  return {name, head_dims, Scratch<kKernel>, Launch<kKernel>};
}

}  // namespace

int64_t BlockTokens() { return cuda::kBlockTokens; }
int64_t DecodeBlockTokens() { return cuda::kDecodeBlockTokens; }

std::vector<AttentionKernel> PrefillKernels() {
  using cuda::AttendKernel;
  const int capability =
      10 * Attribute(cudaDevAttrComputeCapabilityMajor) + Attribute(cudaDevAttrComputeCapabilityMinor);
  std::vector<AttentionKernel> kernels = {Prefill<AttendKernel::kSm80>("sm80 prefill", DecodeHeadDims())};
  std::vector<int> head_dims;
  for (const int d : DecodeHeadDims()) {
    if (cuda::ChooseAttendKernel(capability, d) == AttendKernel::kSm90a) head_dims.push_back(d);
  }
  if (!head_dims.empty()) kernels.push_back(Prefill<AttendKernel::kSm90a>("sm90a prefill", head_dims));
  return kernels;
}

std::vector<int> DecodeHeadDims() { return {std::begin(cuda::kHeadDims), std::end(cuda::kHeadDims)}; }

std::string LaunchDecode(const cuda::DecodeArgs& args, int64_t items, int head_dim) {
  return cuda::Decode(kType, head_dim, args, items, nullptr);
}

std::string LaunchMerge(const cuda::NodeArgs& left, const cuda::NodeArgs& right, int64_t rows, int heads,
                        int head_dim) {
  return cuda::MergeNodes(head_dim, left, right, rows, heads, nullptr);
}

std::string LaunchFinish(const cuda::NodeArgs& root, const cuda::OutputArgs& output, int64_t rows, int heads,
                         int head_dim) {
  return cuda::FinishNodes(kType, head_dim, root, output, rows, heads, nullptr);
}

}  // namespace rondo::gpu_check
