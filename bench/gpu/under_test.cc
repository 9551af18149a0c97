#include <cuda_runtime_api.h>

#include "bench/gpu/attention_under_test.h"
#include "bench/gpu/decode_under_test.h"
#include "bench/gpu/device_memory.h"
#include "kernels/cuda/attention/attention.h"

namespace rondo::gpu_check {
namespace {

constexpr auto kType = cuda::ElementType::kBf16;

int Multiprocessors() {
  int device = 0, count = 0;
  Require(cudaGetDevice(&device), "cudaGetDevice");
  Require(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  return count;
}

cuda::AttendPlan PlanFor(const cuda::AttentionArgs& args, int head_dim) {
  static const int multiprocessors = Multiprocessors();
  return cuda::PlanAttend(head_dim, args.query.rows, args.q_heads, args.keys.tokens, multiprocessors);
}

int64_t Sm80Scratch(const cuda::AttentionArgs& args, int head_dim) { return PlanFor(args, head_dim).scratch_bytes / 4; }

std::string Sm80Launch(const cuda::AttentionArgs& args, int head_dim) {
  return cuda::Attend(kType, head_dim, args, PlanFor(args, head_dim), nullptr);
}

}  // namespace

int64_t BlockTokens() { return cuda::kBlockTokens; }
int64_t DecodeBlockTokens() { return cuda::kDecodeBlockTokens; }

std::vector<AttentionKernel> PrefillKernels() { return {{"sm80 prefill", DecodeHeadDims(), Sm80Scratch, Sm80Launch}}; }

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
