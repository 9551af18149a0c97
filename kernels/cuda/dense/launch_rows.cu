// Launchers of RMS norm, RoPE and gated activations.
#include "base/check.h"
#include "kernels/cuda/attention/launch.cuh"
#include "kernels/cuda/dense/ctas.h"
#include "kernels/cuda/dense/gated_activation.cuh"
#include "kernels/cuda/dense/launch.h"
#include "kernels/cuda/dense/move_rows.cuh"
#include "kernels/cuda/dense/rms_norm.cuh"
#include "kernels/cuda/dense/rope.cuh"

namespace rondo::cuda {
namespace {

constexpr int64_t kMostItems = int64_t{1} << 31;
constexpr int kCtasPerMultiprocessor = 8;

constexpr int Pair(RowType in, RowType out) { return static_cast<int>(in) * 4 + static_cast<int>(out); }

// Calls f.operator()<In, Out>() for the pairs of types the kernels are built for.
template <class F>
std::string WithTypes(RowType in, RowType out, F f) {
  switch (Pair(in, out)) {
    case Pair(RowType::kF32, RowType::kF32):
      return f.template operator()<float, float>();
    case Pair(RowType::kF32, RowType::kBf16):
      return f.template operator()<float, gpu::Bf16>();
    case Pair(RowType::kF32, RowType::kFp16):
      return f.template operator()<float, gpu::Fp16>();
    case Pair(RowType::kBf16, RowType::kBf16):
      return f.template operator()<gpu::Bf16, gpu::Bf16>();
    case Pair(RowType::kFp16, RowType::kFp16):
      return f.template operator()<gpu::Fp16, gpu::Fp16>();
  }
  RONDO_CHECK(false);
  return "no such type";
}

template <RopePairing kPairing>
std::string StartRope(const RopeArgs& args, RowType type, int64_t ctas, void* stream) {
  switch (type) {
    case RowType::kF32:
      return LaunchKernel(Rope<float, kPairing>, ctas, kRopeThreads, 0, stream, args);
    case RowType::kBf16:
      return LaunchKernel(Rope<gpu::Bf16, kPairing>, ctas, kRopeThreads, 0, stream, args);
    case RowType::kFp16:
      return LaunchKernel(Rope<gpu::Fp16, kPairing>, ctas, kRopeThreads, 0, stream, args);
  }
  return "no such type";
}

}  // namespace

std::string LaunchRmsNorm(const RmsNormArgs& args, RowType addend, RowType out, void* stream) {
  RONDO_CHECK(args.cols > 0 && args.cols % 4 == 0);
  const int64_t ctas = CtasFor(args.rows, kCtasPerMultiprocessor);
  return WithTypes(addend, out, [&]<class Addend, class Out>() {
    return LaunchKernel(RmsNorm<Addend, Out>, ctas, kNormThreads, kNormSharedBytes, stream, args);
  });
}

std::string LaunchMoveRows(const MoveRowsArgs& args, void* stream) {
  const int64_t elements = args.rows * args.cols;
  const int64_t ctas = CtasFor((elements + kMoveThreads - 1) / kMoveThreads, kCtasPerMultiprocessor);
  return LaunchKernel(MoveRows, ctas, kMoveThreads, 0, stream, args);
}

std::string LaunchRope(const RopeArgs& args, RowType type, RopePairing pairing, void* stream) {
  RONDO_CHECK(args.rotated % 2 == 0 && args.rotated <= args.head_dim);
  const int64_t pairs = args.rows * args.heads * (args.rotated / 2);
  RONDO_CHECK(pairs < kMostItems);
  const int64_t ctas = CtasFor((pairs + kRopeThreads - 1) / kRopeThreads, kCtasPerMultiprocessor);
  return pairing == RopePairing::kHalves ? StartRope<RopePairing::kHalves>(args, type, ctas, stream)
                                         : StartRope<RopePairing::kInterleaved>(args, type, ctas, stream);
}

std::string LaunchGatedActivation(const GatedActivationArgs& args, RowType in, RowType out, GateKind kind,
                                  void* stream) {
  RONDO_CHECK(args.cols % 4 == 0 && args.in_stride % 4 == 0);
  const int64_t quads = args.rows * (args.cols / 4);
  RONDO_CHECK(quads < kMostItems);
  const int64_t ctas = CtasFor((quads + kGateThreads - 1) / kGateThreads, kCtasPerMultiprocessor);
  return WithTypes(in, out, [&]<class In, class Out>() {
    const auto kernel = kind == GateKind::kSilu ? GatedActivation<In, Out, GateKind::kSilu>
                                                : GatedActivation<In, Out, GateKind::kGeluTanh>;
    return LaunchKernel(kernel, ctas, kGateThreads, 0, stream, args);
  });
}

}  // namespace rondo::cuda
