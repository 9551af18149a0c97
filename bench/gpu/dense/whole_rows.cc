// The dense kernels of whole rows against float64: RMS norm, RoPE, gated activation, sums; and those that must be
// exact: dequantisation by ggml's formulas, argmax and top-k by sorting.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "bench/gpu/dense/dense.h"
#include "bench/gpu/dense/weights.h"
#include "bench/gpu/device_memory.h"
#include "bench/gpu/lines.h"
#include "kernels/cuda/dense/launch.h"
#include "kernels/cuda/dense/ranked_token.h"

namespace rondo::gpu_check {
namespace {

using cuda::RowType;

void Started(const std::string& wrong) {
  if (!wrong.empty()) Fail(wrong);
  RequireFinished("a dense kernel");
}

void Say(const char* kernel, const std::string& what, bool pass, double error) {
  Line("check").Text("kernel", kernel).Text("case", what).Bool("pass", pass).Number("error", error).Say();
}

std::vector<float> Floats(int64_t count, float magnitude, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-magnitude, magnitude);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

// The largest difference in units of `allowed` of the exact value, or of 1e-6 where that is near zero.
double Worst(const std::vector<double>& exact, const std::vector<float>& got, double allowed) {
  double worst = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double error = std::fabs(exact[i] - got[i]) / (allowed * std::fabs(exact[i]) + 1e-6);
    worst = std::isfinite(got[i]) ? std::max(worst, error) : INFINITY;
  }
  return worst;
}

void CheckNorm(int32_t cols) {
  constexpr int64_t kRows = 37;
  constexpr float kEps = 1e-5f;
  const std::vector<float> x = Floats(kRows * cols, 3, 11), gain = Floats(cols, 2, 12);
  const DeviceArray<float> in(x), gains(gain);
  DeviceArray<float> out(x.size());
  out.Poison();
  const cuda::RmsNormArgs args{
      .x = in.get(), .gain = gains.get(), .out = out.get(), .rows = kRows, .cols = cols, .eps = kEps};
  Started(cuda::LaunchRmsNorm(args, RowType::kF32, RowType::kF32, nullptr));
  std::vector<double> exact;
  for (int64_t row = 0; row < kRows; ++row) {
    const float* of_row = x.data() + row * cols;
    double sum = 0;
    for (int32_t i = 0; i < cols; ++i) sum += double{of_row[i]} * of_row[i];
    for (int32_t i = 0; i < cols; ++i) exact.push_back(of_row[i] / std::sqrt(sum / cols + kEps) * gain[i]);
  }
  const double worst = Worst(exact, out.ToHost(), 1e-6);
  Say("RMS norm", std::to_string(kRows) + " rows of " + std::to_string(cols), worst <= 1, worst);
}

void CheckRope() {
  constexpr int64_t kRows = 9;
  constexpr int32_t kHeads = 5, kHeadDim = 96, kRotated = 64, kPairs = kRotated / 2;
  const std::vector<float> angles = Floats(kRows * kPairs, 3, 13);
  std::vector<float> cos, sin;
  for (const float angle : angles) {
    cos.push_back(std::cos(angle));
    sin.push_back(std::sin(angle));
  }
  const DeviceArray<float> cos_there(cos), sin_there(sin);
  for (const RopePairing pairing : {RopePairing::kInterleaved, RopePairing::kHalves}) {
    const std::vector<float> x = Floats(kRows * kHeads * kHeadDim, 2, 14);
    const DeviceArray<float> there(x);
    const cuda::RopeArgs args{.x = there.get(),
                              .cos = cos_there.get(),
                              .sin = sin_there.get(),
                              .row_stride = kHeads * kHeadDim,
                              .rows = kRows,
                              .heads = kHeads,
                              .head_dim = kHeadDim,
                              .rotated = kRotated};
    Started(cuda::LaunchRope(args, RowType::kF32, pairing, nullptr));
    std::vector<double> exact(x.begin(), x.end());
    const bool halves = pairing == RopePairing::kHalves;
    for (int64_t head = 0; head < kRows * kHeads; ++head) {
      for (int32_t i = 0; i < kPairs; ++i) {
        const int64_t a = head * kHeadDim + (halves ? i : 2 * i), b = halves ? a + kPairs : a + 1;
        const double c = cos[head / kHeads * kPairs + i], s = sin[head / kHeads * kPairs + i];
        exact[a] = x[a] * c - x[b] * s;
        exact[b] = x[b] * c + x[a] * s;
      }
    }
    const double worst = Worst(exact, there.ToHost(), 1e-6);
    Say("RoPE", halves ? "halves" : "interleaved", worst <= 1, worst);
  }
}

void CheckActivation() {
  constexpr int64_t kRows = 4;
  constexpr int32_t kCols = 1024;
  const std::vector<float> gate = Floats(kRows * kCols, 40, 15), up = Floats(kRows * kCols, 3, 16);
  const DeviceArray<float> gates(gate), ups(up);
  for (const GateKind kind : {GateKind::kSilu, GateKind::kGeluTanh}) {
    DeviceArray<float> out(gate.size());
    out.Poison();
    const cuda::GatedActivationArgs args{
        .gate = gates.get(), .up = ups.get(), .in_stride = kCols, .out = out.get(), .rows = kRows, .cols = kCols};
    Started(cuda::LaunchGatedActivation(args, RowType::kF32, RowType::kF32, kind, nullptr));
    std::vector<double> exact;
    for (size_t i = 0; i < gate.size(); ++i) {
      const double x = gate[i];
      const double silu = x / (1 + std::exp(-x));
      const double gelu = 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      exact.push_back((kind == GateKind::kSilu ? silu : gelu) * up[i]);
    }
    const double worst = Worst(exact, out.ToHost(), 2e-6);
    Say("gated activation", kind == GateKind::kSilu ? "SiLU" : "GELU", worst <= 1, worst);
  }
}

// Between matrices of different strides; what lies between the columns stays as it is.
void CheckMoves() {
  constexpr int64_t kRows = 5, kCols = 100, kFrom = 128, kTo = 104;
  const std::vector<float> from = Floats(kRows * kFrom, 2, 19), to = Floats(kRows * kTo, 2, 20);
  const DeviceArray<float> from_there(from);
  for (const bool add : {false, true}) {
    const DeviceArray<float> to_there(to);
    const cuda::MoveRowsArgs args{.from = from_there.get(),
                                  .to = to_there.get(),
                                  .from_stride = kFrom,
                                  .to_stride = kTo,
                                  .rows = kRows,
                                  .cols = kCols,
                                  .add = add};
    Started(cuda::LaunchMoveRows(args, nullptr));
    std::vector<float> exact = to;
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < kCols; ++i) {
        float& x = exact[row * kTo + i];
        x = (add ? x : 0) + from[row * kFrom + i];
      }
    }
    const bool equal = to_there.ToHost() == exact;
    Say("move rows", add ? "added" : "copied", equal, equal ? 0 : 1);
  }
}

void CheckDequantise() {
  constexpr int64_t kRows = 7, kCols = 1024;
  for (const WeightType type : kFewRowTypes) {
    const std::vector<uint8_t> file = RandomWeights(type, kRows, kCols, 17);
    const DeviceArray<uint8_t> there(file);
    const DeviceArray<int32_t> ids(std::vector<int32_t>{6, 0, 3});
    DeviceArray<float> out(ids.count() * kCols);
    out.Poison();
    const cuda::DequantiseArgs args{.weight = there.get(),
                                    .row_bytes = RowBytes(type, kCols),
                                    .ids = ids.get(),
                                    .out = out.get(),
                                    .rows = 3,
                                    .cols = kCols};
    Started(cuda::LaunchDequantise(args, type, RowType::kF32, nullptr));
    std::vector<double> exact;
    for (const int64_t row : {6, 0, 3}) {
      const std::vector<double> values = RowValues(type, file.data() + row * RowBytes(type, kCols), kCols);
      exact.insert(exact.end(), values.begin(), values.end());
    }
    const double worst = Worst(exact, out.ToHost(), 1e-6);  // products of scales are rounded to float
    Say("dequantise", NameOf(type), worst <= 1, worst);
  }
}

void CheckRanking(int32_t count) {
  constexpr int64_t kRows = 2;
  constexpr int32_t kMost = 64;
  std::vector<float> logits = Floats(kRows * count, 12, 18);
  for (float& logit : logits) logit = std::round(logit * 100) / 100;  // ties, which go to the lower id
  const DeviceArray<float> there(logits);
  const DeviceArray<uint64_t> scratch(static_cast<size_t>(cuda::TopKScratchBytes(kRows, count, kMost) / 8)),
      top(size_t{kRows * kMost}), best(size_t{kRows});
  Started(cuda::LaunchTopK(there.get(), kRows, count, kMost, scratch.get(), top.get(), nullptr));
  Started(cuda::LaunchArgmax(there.get(), kRows, count, best.get(), nullptr));
  const std::vector<uint64_t> ranks = top.ToHost(), first = best.ToHost();
  int64_t wrong_top = 0, wrong_first = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    std::iota(ids.begin(), ids.end(), 0);
    const float* const of_row = logits.data() + row * count;
    std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return of_row[a] > of_row[b]; });
    for (int32_t i = 0; i < kMost; ++i) wrong_top += cuda::TokenOfRank(ranks[row * kMost + i]).id != ids[i];
    wrong_first += cuda::TokenOfRank(first[row]).id != ids[0];
  }
  const std::string what = "of " + std::to_string(count);
  Say("top-k", std::to_string(kMost) + " " + what, wrong_top == 0, static_cast<double>(wrong_top));
  Say("argmax", what, wrong_first == 0, static_cast<double>(wrong_first));
}

}  // namespace

void CheckWholeRows(const DenseSizes& sizes) {
  CheckNorm(sizes.cols);
  CheckNorm(sizes.cols + 4);
  CheckRope();
  CheckActivation();
  CheckMoves();
  CheckDequantise();
  CheckRanking(sizes.vocabulary);
}

}  // namespace rondo::gpu_check
