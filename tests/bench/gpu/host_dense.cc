// The dense kernels as plain loops over host memory, called as the CUDA ones are, so gpu_check's section "dense" must
// find nothing wrong with them. The variable RONDO_PLANT makes them wrong in one way, which the section must find.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>

#include "base/bf16.h"
#include "bench/gpu/dense/dense.h"
#include "bench/gpu/dense/weights.h"
#include "kernels/cuda/dense/launch.h"

namespace rondo::gpu_check {
namespace {

bool Planted(std::string_view name) {
  const char* plant = std::getenv("RONDO_PLANT");
  return plant != nullptr && plant == name;
}

class HostLtMatMul : public cuda::LtMatMul {
 public:
  absl::Status Run(const cuda::LtMatMulArgs& args, void*) override {
    const auto* weight = static_cast<const uint16_t*>(args.weight);
    const auto* x = static_cast<const uint16_t*>(args.x);
    for (int64_t row = 0; row < args.rows; ++row) {
      for (int64_t out = 0; out < args.n; ++out) {
        float sum = 0;
        for (int64_t i = 0; i < args.k; ++i)
          sum += Bf16ToFloat(weight[out * args.k + i]) * Bf16ToFloat(x[row * args.k + i]);
        // A tile in which the last rows are summed otherwise.
        if (Planted("lt_place") && row % cuda::kLtRows == 127 && out == 3) sum = std::nextafter(sum, 1e9f);
        // An algorithm that goes by the number of rows.
        if (Planted("lt_alone") && args.rows == 1 && out == 5) sum = std::nextafter(sum, 1e9f);
        if (Planted("lt_scale")) sum *= 1.001f;
        static_cast<float*>(args.y)[row * args.n + out] = sum;
      }
    }
    return absl::OkStatus();
  }
};

}  // namespace

DenseSizes DenseSizesHere() {
  DenseSizes sizes;
  sizes.many_rows = {{8, 256}};
  sizes.few_rows = {{20, 512}};
  sizes.timed = {{24, 256}};
  sizes.timed_rows = 130;
  sizes.cols = 64;
  sizes.vocabulary = 1000;
  sizes.copy_bytes = 4096;
  return sizes;
}

std::unique_ptr<cuda::LtMatMul> OpenLtMatMul() { return std::make_unique<HostLtMatMul>(); }

}  // namespace rondo::gpu_check

namespace rondo::cuda {

using gpu_check::Planted;

std::string LaunchRmsNorm(const RmsNormArgs& args, RowType, RowType, void*) {
  for (int64_t row = 0; row < args.rows; ++row) {
    const float* const x = args.x + row * args.cols;
    float sum = 0;
    for (int32_t i = 0; i < args.cols; ++i) sum += x[i] * x[i];
    const float scale = 1 / std::sqrt(sum / static_cast<float>(args.cols) + (Planted("norm") ? 0.01f : args.eps));
    for (int32_t i = 0; i < args.cols; ++i) {
      static_cast<float*>(args.out)[row * args.cols + i] = x[i] * scale * args.gain[i];
    }
  }
  return "";
}

std::string LaunchRope(const RopeArgs& args, RowType, RopePairing pairing, void*) {
  const int32_t pairs = args.rotated / 2;
  const bool halves = pairing == RopePairing::kHalves;
  for (int64_t row = 0; row < args.rows; ++row) {
    for (int32_t head = 0; head < args.heads; ++head) {
      float* const x = static_cast<float*>(args.x) + row * args.row_stride + head * args.head_dim;
      for (int32_t i = 0; i < pairs; ++i) {
        float& a = x[halves ? i : 2 * i];
        float& b = x[halves ? i + pairs : 2 * i + 1];
        const float cos = args.cos[row * pairs + i],
                    sin = Planted("rope") ? -args.sin[row * pairs + i] : args.sin[row * pairs + i];
        const float turned = a * cos - b * sin;
        b = b * cos + a * sin;
        a = turned;
      }
    }
  }
  return "";
}

std::string LaunchGatedActivation(const GatedActivationArgs& args, RowType, RowType, GateKind kind, void*) {
  for (int64_t i = 0; i < args.rows * args.cols; ++i) {
    const double x = static_cast<const float*>(args.gate)[i];
    const double cube = Planted("gelu") ? 0.04 : 0.044715;
    const double act = kind == GateKind::kSilu ? x / (1 + std::exp(-x))
                                               : x / (1 + std::exp(-1.5957691216057308 * (x + cube * x * x * x)));
    static_cast<float*>(args.out)[i] = static_cast<float>(act) * static_cast<const float*>(args.up)[i];
  }
  return "";
}

std::string LaunchMoveRows(const MoveRowsArgs& args, void*) {
  for (int64_t row = 0; row < args.rows; ++row) {
    for (int64_t i = 0; i < args.cols + (Planted("move") ? 1 : 0); ++i) {
      float& to = args.to[row * args.to_stride + i];
      const float from = args.from[row * args.from_stride + i];
      to = args.add ? to + from : from;
    }
  }
  return "";
}

std::string LaunchDequantise(const DequantiseArgs& args, WeightType type, RowType, void*) {
  for (int64_t row = 0; row < args.rows; ++row) {
    const int64_t id = Planted("ids") ? row : args.ids[row];
    const std::vector<double> values = gpu_check::RowValues(type, args.weight + id * args.row_bytes, args.cols);
    std::copy(values.begin(), values.end(), static_cast<float*>(args.out) + row * args.cols);
  }
  return "";
}

namespace {

// As RankOf of ranking.cuh says: the logit's bits so that they rise with it, and the id so that it falls.
uint64_t Rank(float logit, int32_t id) {
  uint32_t bits;
  std::memcpy(&bits, &logit, sizeof(bits));
  const uint32_t rising = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{rising} << 32 | (Planted("tie") ? static_cast<uint32_t>(id) : ~static_cast<uint32_t>(id));
}

}  // namespace

int64_t TopKScratchBytes(int64_t, int32_t, int32_t) { return 8; }

std::string LaunchTopK(const float* logits, int64_t rows, int32_t count, int32_t k, void*, uint64_t* out, void*) {
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<uint64_t> ranks;
    for (int32_t id = 0; id < count; ++id) ranks.push_back(Rank(logits[row * count + id], id));
    std::sort(ranks.rbegin(), ranks.rend());
    std::copy_n(ranks.begin(), k, out + row * k);
    // A tie that goes the other way has the other id.
    if (!Planted("tie")) continue;
    for (int32_t i = 0; i < k; ++i) out[row * k + i] ^= 0xffffffffu;
  }
  return "";
}

std::string LaunchArgmax(const float* logits, int64_t rows, int32_t count, uint64_t* out, void* stream) {
  return LaunchTopK(logits, rows, count, 1, nullptr, out, stream);
}

// Codes stay as they are.
int64_t PackedBytes(WeightType type, int32_t rows, int32_t cols) { return rows * gpu_check::RowBytes(type, cols); }

std::string LaunchPackWeight(const PackArgs& args, WeightType, void*) {
  std::memcpy(args.packed, args.weight, static_cast<size_t>(args.rows * args.row_bytes));
  return "";
}

std::string LaunchMatMulFewRows(const MatMulFewRowsArgs& args, WeightType type, RowType x_type, void*) {
  for (int32_t out = 0; out < args.rows; ++out) {
    const std::vector<double> weight =
        gpu_check::RowValues(type, args.packed + out * gpu_check::RowBytes(type, args.cols), args.cols);
    for (int64_t row = 0; row < args.count; ++row) {
      const auto x = [&](int64_t i) {
        const int64_t at = row * args.cols + i;
        if (x_type == RowType::kBf16) return Bf16ToFloat(static_cast<const uint16_t*>(args.x)[at]);
        const float value = static_cast<const float*>(args.x)[at];
        return Planted("few_rounded") ? Bf16ToFloat(FloatToBf16(value)) : value;
      };
      double sum = 0;
      for (int32_t i = 0; i < args.cols; ++i) sum += weight[i] * x(i);
      float y = static_cast<float>(sum);
      if (Planted("few_place") && row == 9 && out == 1) y = std::nextafter(y, 1e9f);
      if (Planted("few_scale")) y *= 1.001f;
      if (Planted("few_unwritten") && row == 2 && out == 0) continue;
      static_cast<float*>(args.y)[row * args.rows + out] = y;
    }
  }
  return "";
}

}  // namespace rondo::cuda
