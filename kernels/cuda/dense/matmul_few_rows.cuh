// Products of few activation rows (decode) with Q4_1, Q8_0 and Q4_K weights, straight from packed codes: bound by
// reading the weights once. Weights are the m = 16 side of mma.m16n8k16 and up to eight activation rows the n = 8 side,
// so one row costs what eight do and goes through the same instructions.
//
// What decides the bits of y[i, r]: for each block of 32 columns, from zero, two products of 16 (codes are exact in
// bf16) give p, and the same with a weight of ones gives the block's sum s; for float rows the parts follow each other,
// the largest first. Then f = fma(scale, p, f) and, where the type has minima, f = fma(minimum, s, f). Warp w of eight
// takes groups w, w + 8, ... of four blocks, ascending; the warps' sums are folded as 4 + 4, 2 + 2, 1 + 1. Nothing of
// this depends on the other rows. (Taken for granted: columns of an mma do not know of each other.)
#pragma once

#include "kernels/cuda/dense/args.h"
#include "kernels/cuda/dense/packed_codes.cuh"
#include "kernels/cuda/dense/row_fragments.cuh"

namespace rondo::cuda {

inline constexpr int kFewRowsWarps = 8;
inline constexpr int kFewRowsThreads = kFewRowsWarps * 32;
inline constexpr int kFewRowsCtasPerMultiprocessor = 2;
inline constexpr int kFewRowsSums = kPackTileRows * kFewRows;
inline constexpr int kFewRowsSharedBytes = kFewRowsWarps * kFewRowsSums * 4;

// One tile of weight rows times eight activation rows. A CTA's warps share out the columns: there are not enough tiles
// for a warp each to keep as much on its way as the memory can deliver.
template <WeightType kType, class X>
class FewRowsTile {
 public:
  using Type = PackedType<kType>;
  using Scales = PackedScales<kType>;
  using Rows = RowFragments<X>;
  using Memory = typename Rows::Memory;

  RONDO_DEVICE FewRowsTile(const MatMulFewRowsArgs& args, int tile, int64_t first_row)
      : args_(args), shape_(args.rows, args.cols), tile_(tile), first_row_(first_row) {}

  RONDO_DEVICE void Run() {
    const int warp = gpu::ThreadIndex() / 32;
    Weights weights;
    if (warp < shape_.groups) Load(warp, &weights);
    for (int group = warp; group < shape_.groups; group += kFewRowsWarps) {
      // The next weights are on their way while these are used.
      Weights next;
      if (group + kFewRowsWarps < shape_.groups) Load(group + kFewRowsWarps, &next);
      Multiply(group, weights);
      weights = next;
    }
    Fold(warp);
  }

 private:
  // A lane's share of a group, half by half.
  struct Weights {
    PackedCodes<kType> codes[2];
    typename Scales::Memory scales[2];
  };

  RONDO_DEVICE void Load(int group, Weights* weights) const {
    const auto* words = reinterpret_cast<const gpu::Word4*>(args_.packed);
    const int lane = gpu::LaneIndex();
    RONDO_UNROLL
    for (int half = 0; half < 2; ++half) {
      RONDO_UNROLL
      for (int w = 0; w < Type::kCodeWords; ++w) {
        weights->codes[half].words[w] = gpu::LoadOnce(words + shape_.CodeWord(tile_, group, half, w, lane));
      }
      const uint8_t* scales = args_.packed + shape_.ScaleByte(tile_, group, half * 8 + lane / 4);
      weights->scales[half] = gpu::Load(reinterpret_cast<const typename Scales::Memory*>(scales));
    }
  }

  // Rows and columns that do not exist are zeros.
  RONDO_DEVICE void LoadRows(int block, Rows* rows) const {
    const int lane = gpu::LaneIndex();
    const int64_t row = first_row_ + lane / 4;
    const int col = block * kPackBlock + 8 * (lane % 4);
    const auto* x = static_cast<const Memory*>(args_.x) + row * args_.cols + col;
    rows->Load(x, row < args_.count && col < args_.cols);
  }

  RONDO_DEVICE void Multiply(int group, const Weights& weights) {
    RONDO_UNROLL
    for (int b = 0; b < kPackGroupBlocks; ++b) {
      Rows rows;
      LoadRows(group * kPackGroupBlocks + b, &rows);
      float sums[4] = {0, 0, 0, 0};
      if (kHasMinimum) {
        constexpr uint32_t kOnes = 0x3f803f80u;
        const uint32_t ones[2][4] = {{kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes, kOnes, kOnes}};
        MultiplyBlock(ones, rows, &sums);
      }
      uint32_t a[2][4];
      RONDO_UNROLL
      for (int i = 0; i < 8; ++i) a[i / 4][i % 4] = weights.codes[i % 2].Pair(b, i / 2);
      float products[4] = {0, 0, 0, 0};
      MultiplyBlock(a, rows, &products);
      RONDO_UNROLL
      for (int i = 0; i < 4; ++i) {
        const Scales scales(weights.scales[i / 2], group);
        y_[i] = gpu::Fma(scales.Scale(b), products[i], y_[i]);
        if (kHasMinimum) y_[i] = gpu::Fma(scales.Minimum(b), sums[i], y_[i]);
      }
    }
  }

  // One block of 32 columns: a[0] its pairs 0 and 1 of every lane, a[1] pairs 2 and 3.
  RONDO_DEVICE static void MultiplyBlock(const uint32_t (&a)[2][4], const Rows& rows, float (*sums)[4]) {
    RONDO_UNROLL
    for (int part = 0; part < Rows::kParts; ++part) {
      RONDO_UNROLL
      for (int step = 0; step < 2; ++step) {
        gpu::MultiplyAdd<gpu::Bf16>(*sums, a[step], rows.part[part][2 * step], rows.part[part][2 * step + 1]);
      }
    }
  }

  // Sums of all warps through shared memory, one a thread: those of one activation row lie side by side.
  RONDO_DEVICE void Fold(int warp) const {
    RONDO_UNROLL
    for (int i = 0; i < 4; ++i) gpu::StoreShared(SharedSum(warp, i, gpu::LaneIndex()), y_[i]);
    gpu::CtaSync();
    if (gpu::ThreadIndex() < kFewRowsSums) {
      const int weight_row = gpu::ThreadIndex() % kPackTileRows;
      const int row = gpu::ThreadIndex() / kPackTileRows;
      // Where the mma leaves it: weight rows lane / 4 and + 8, activation rows 2 * (lane % 4) and + 1.
      const int i = weight_row / 8 * 2 + row % 2;
      const int lane = weight_row % 8 * 4 + row / 2;
      float sums[kFewRowsWarps];
      RONDO_UNROLL
      for (int w = 0; w < kFewRowsWarps; ++w) sums[w] = gpu::LoadShared<float>(SharedSum(w, i, lane));
      RONDO_UNROLL
      for (int half = kFewRowsWarps / 2; half > 0; half /= 2) {
        RONDO_UNROLL
        for (int w = 0; w < half; ++w) sums[w] += sums[w + half];
      }
      StoreSum(first_row_ + row, tile_ * kPackTileRows + weight_row, sums[0]);
    }
    gpu::CtaSync();  // the next tile overwrites the sums
  }

  RONDO_DEVICE static gpu::Shared SharedSum(int warp, int i, int lane) {
    return gpu::SharedMemory() + static_cast<gpu::Shared>(((warp * 4 + i) * 32 + lane) * 4);
  }

  RONDO_DEVICE void StoreSum(int64_t row, int weight_row, float sum) const {
    if (row >= args_.count || weight_row >= args_.rows) return;
    const int64_t at = row * args_.rows + weight_row;
    if (args_.y_is_float) {
      gpu::Store(static_cast<float*>(args_.y) + at, sum);
    } else {
      gpu::Store(static_cast<uint16_t*>(args_.y) + at, static_cast<uint16_t>(gpu::Pack<gpu::Bf16>(sum, 0.0f)));
    }
  }

  static constexpr bool kHasMinimum = kType != WeightType::kQ8_0;

  const MatMulFewRowsArgs& args_;
  PackedWeight<kType> shape_;
  int tile_;
  int64_t first_row_;
  float y_[4] = {};
};

// X: gpu::Bf16 or float. Chunks of eight activation rows that meet the same weights run side by side and find them in
// L2.
template <WeightType kType, class X>
RONDO_KERNEL(kFewRowsThreads, kFewRowsCtasPerMultiprocessor)
MatMulFewRows(RONDO_GRID_CONSTANT const MatMulFewRowsArgs args) {
  const int64_t chunks = (args.count + kFewRows - 1) / kFewRows;
  const int64_t items = PackedWeight<kType>(args.rows, args.cols).tiles * chunks;
  for (int64_t item = gpu::CtaIndex(); item < items; item += gpu::CtaCount()) {
    FewRowsTile<kType, X>(args, static_cast<int>(item / chunks), item % chunks * kFewRows).Run();
  }
}

}  // namespace rondo::cuda
