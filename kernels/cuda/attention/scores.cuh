// From scores to probabilities, one 16-row tile of a warp at a time; used by the prefill and decode kernels.
//
// A lane of mma.sync holds, of a 16x8 tile, elements [i] at row lane / 4 + 8 * (i / 2), column lane % 4 * 2 + i % 2: two
// rows, "halves" 0 and 1, and of each every fourth pair of columns. The four lanes of a quad share two rows.
#pragma once

#include "kernels/cuda/attention/masks.cuh"
#include "kernels/cuda/attention/softmax.cuh"

namespace rondo::cuda {

RONDO_DEVICE int LaneRow(int half) { return gpu::LaneIndex() / 4 + half * 8; }
RONDO_DEVICE int LaneColumn(int tile, int i) { return tile * 8 + gpu::LaneIndex() % 4 * 2 + i; }

RONDO_DEVICE float QuadMax(float x) {
  x = gpu::Max(x, gpu::ShuffleXor(x, 1));
  return gpu::Max(x, gpu::ShuffleXor(x, 2));
}
// The same bits in all four lanes: addition commutes.
RONDO_DEVICE float QuadSum(float x) {
  x += gpu::ShuffleXor(x, 1);
  return x + gpu::ShuffleXor(x, 2);
}

// What one query head does to its scores.
class ScoreRule {
 public:
  RONDO_DEVICE ScoreRule(const ScoreArgs& args, int head)
      : bent_(args.softcap != 0 || args.alibi_slopes != nullptr),
        softcap_(args.softcap != 0),
        scale_(args.scale * kLog2E),
        cap_(args.softcap * kLog2E),
        inner_(softcap_ ? 2.0f * kLog2E * args.scale / args.softcap : 0.0f),
        slope_(args.alibi_slopes != nullptr ? gpu::Load(args.alibi_slopes + head) * kLog2E : 0.0f) {}

  // Whether Bend is to be called at all: plain scores are scaled on the way to the exponential, at no cost.
  RONDO_DEVICE bool bent() const { return bent_; }
  // What multiplies a score that has been through Bend, if it had to.
  RONDO_DEVICE float factor() const { return bent_ ? 1.0f : scale_; }
  // q.k to units of log2 with soft cap and ALiBi; `distance` is |k - p|.
  RONDO_DEVICE float Bend(float qk, int distance) const {
    // tanh(x) = 1 - 2 / (e^2x + 1)
    const float s = softcap_ ? cap_ * (1.0f - 2.0f * gpu::Reciprocal(gpu::Exp2(qk * inner_) + 1.0f)) : qk * scale_;
    return gpu::Fma(-slope_, static_cast<float>(distance), s);
  }

 private:
  bool bent_, softcap_;
  float scale_, cap_, inner_, slope_;
};

// The running maximum and sum of the two rows a lane holds. l is the lane's own part until the block ends.
struct RunningRows {
  float m[2], l[2];

  RONDO_DEVICE void Clear() {
    RONDO_UNROLL
    for (int half = 0; half < 2; ++half) {
      m[half] = kEmptyMax;
      l[half] = 0;
    }
  }
};

// Bends scores s[tile][i] of keys key_begin + [0, 8 * kTiles), counted like `row_key`, the row's own position.
template <int kTiles>
RONDO_DEVICE void BendScores(const ScoreRule& rule, const int64_t (&row_key)[2], float (&s)[kTiles][4]) {
  RONDO_UNROLL
  for (int tile = 0; tile < kTiles; ++tile) {
    RONDO_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int64_t away = LaneColumn(tile, i % 2) - row_key[i / 2];
      s[tile][i] = rule.Bend(s[tile][i], static_cast<int>(away < 0 ? -away : away));
    }
  }
}

// Scores a row does not see become -inf; whatever they were, NaN too, is gone.
template <int kTiles>
RONDO_DEVICE void MaskScores(const KeyInterval (&rows)[2], float (&s)[kTiles][4]) {
  RONDO_UNROLL
  for (int tile = 0; tile < kTiles; ++tile) {
    RONDO_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (!rows[i / 2].Has(LaneColumn(tile, i % 2))) s[tile][i] = MinusInfinity();
    }
  }
}

// The lane's largest score of a row.
template <int kTiles>
RONDO_DEVICE float LargestScore(const float (&s)[kTiles][4], int half) {
  float largest = MinusInfinity();
  RONDO_UNROLL
  for (int tile = 0; tile < kTiles; ++tile) {
    largest = gpu::Max(largest, gpu::Max(s[tile][2 * half], s[tile][2 * half + 1]));
  }
  return largest;
}

// The maximum after a tile whose largest score (of all its visible keys) is `largest`. Not a number counts for nothing.
RONDO_DEVICE float RaisedMax(float m, float largest, float factor) { return gpu::Max(m, gpu::Ceil(largest * factor)); }

// s = 2^(s * factor - m) for the 16 keys of s[pair], s[pair + 1]; returns their sum in the order every kernel keeps.
template <int kTiles>
RONDO_DEVICE float Exponentials(float (&s)[kTiles][4], int pair, int half, float factor, float m) {
  float p[4];
  RONDO_UNROLL
  for (int i = 0; i < 4; ++i) {
    float& score = s[pair + i / 2][2 * half + i % 2];
    score = gpu::Exp2(gpu::Fma(score, factor, -m));
    p[i] = score;
  }
  return (p[0] + p[1]) + (p[2] + p[3]);
}

// l after a tile of 64 keys, from the sums of its four groups of 16.
RONDO_DEVICE float RaisedSum(float l, float rescale, const float (&groups)[4]) {
  return gpu::Fma(l, rescale, (groups[0] + groups[1]) + (groups[2] + groups[3]));
}

}  // namespace rondo::cuda
