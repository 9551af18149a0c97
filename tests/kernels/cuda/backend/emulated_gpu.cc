#include "tests/kernels/cuda/backend/emulated_gpu.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cuda/attention/attend_mma.cuh"
#include "kernels/cuda/attention/decode_mma.cuh"
#include "kernels/cuda/attention/fold_leaves.cuh"
#include "kernels/cuda/attention/nodes.cuh"
#include "tests/testing/simt/launch.h"

namespace rondo::cuda {
namespace {

constexpr int kHeadDim = 64;
constexpr int kCtas = 2;
constexpr int kLeafTokens = 2 * rondo::kBlockTokens;
using Config = AttendConfig<gpu::Bf16, kHeadDim, 1, kLeafTokens>;
template <int kLeaf>
using FewRows = DecodeConfig<gpu::Bf16, kHeadDim, 3, kLeaf>;

void Check(const simt::Report& report) {
  if (report.ok()) return;
  std::fprintf(stderr, "%s\n", report.fault.c_str());
  std::abort();
}

void Note(const QueryArgs& rows, std::vector<int64_t>* positions) {
  for (int64_t row = 0; row < rows.rows; ++row) positions->push_back(rows.first_position + row);
}

int NodeCtas(int64_t rows, int32_t heads) {
  constexpr int kWarps = kNodeThreads / 32;
  return static_cast<int>((rows * heads + kWarps - 1) / kWarps);
}

template <int kLeaf>
void LaunchDecode(const DecodeArgs& args, int64_t items, const simt::Options& options) {
  using C = FewRows<kLeaf>;
  Check(simt::Launch(static_cast<int>(items), C::kThreads, DecodeBlock<C>::kSharedBytes, options,
                     [&] { DecodeMma<C>(args); }));
  constexpr int kWarps = kFoldThreads / 32;
  Check(simt::Launch(static_cast<int>((args.rows * args.q_heads + kWarps - 1) / kWarps), kFoldThreads, 0, options,
                     [&] { FoldLeaves<gpu::Bf16, kHeadDim, kLeaf>(args); }));
}

}  // namespace

void* EmulatedGpu::Allocate(size_t bytes) {
  if ((used_ += bytes) > most_) {
    used_ -= bytes;
    return nullptr;
  }
  void* const p = memory_.Allocate(bytes);
  const testing::FencedMemory::Opened opened(memory_);
  std::memset(p, 0xff, bytes);
  return p;
}

void EmulatedGpu::Attend(AttentionArgs args, int32_t) {
  Note(args.query, &launched_.attend);
  ++launched_.attend_launches;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const int64_t blocks = (args.keys.tokens + Config::kBlockTokensOfTree - 1) / Config::kBlockTokensOfTree;
  std::vector<gpu::Float4> scratch(ScratchFloats<Config>(kCtas, blocks) / 4, {kNaN, kNaN, kNaN, kNaN});
  args.scratch = &scratch.front().x;
  const testing::FencedMemory::Opened opened(memory_);
  Check(simt::Launch(kCtas, Config::kThreads, AttendTile<Config>::kSharedBytes, options_,
                     [&] { AttendMma<Config>(args); }));
}

void EmulatedGpu::Decode(const DecodeArgs& args, int64_t items, int32_t) {
  const testing::FencedMemory::Opened opened(memory_);
  for (int i = 0; i < args.count; ++i) Note(args.sequences[i].query, &launched_.decode);
  ++launched_.decode_launches;
  if (drawn_leaf_level_ == 0) {
    LaunchDecode<rondo::kBlockTokens>(args, items, options_);
  } else {
    LaunchDecode<kLeafTokens>(args, items, options_);
  }
}

void EmulatedGpu::Merge(const NodeArgs& left, const NodeArgs& right, int64_t rows, int32_t heads, int32_t) {
  const testing::FencedMemory::Opened opened(memory_);
  Check(simt::Launch(NodeCtas(rows, heads), kNodeThreads, 0, options_,
                     [&] { MergeNodesKernel<kHeadDim>(left, right, rows, heads); }));
}

void EmulatedGpu::Finish(const NodeArgs& root, const OutputArgs& output, int64_t rows, int32_t heads, int32_t) {
  const testing::FencedMemory::Opened opened(memory_);
  Check(simt::Launch(NodeCtas(rows, heads), kNodeThreads, 0, options_,
                     [&] { FinishNodesKernel<gpu::Bf16, kHeadDim>(root, output, rows, heads); }));
}

}  // namespace rondo::cuda
