// From scores to probabilities, one 16-row tile of a warp at a time; used by the prefill and decode kernels.
//
// A lane of mma.sync holds, of a 16x8 tile, elements [i] at row lane / 4 + 8 * (i / 2), column lane % 4 * 2 + i % 2:
// two rows, "halves" 0 and 1, and of each every fourth pair of columns. The four lanes of a quad share two rows.
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

// Whether scores go through BendScores at all: plain ones are scaled on the way to the exponential, at no cost.
RONDO_DEVICE bool IsBent(const ScoreArgs& args) { return args.softcap != 0 || args.alibi_slopes != nullptr; }

// What multiplies a score inside the exponential.
RONDO_DEVICE float ScoreFactor(const ScoreArgs& args) { return IsBent(args) ? 1.0f : args.scale * kLog2E; }

RONDO_DEVICE float SlopeOf(const ScoreArgs& args, int head) {
  return args.alibi_slopes != nullptr ? gpu::Load(args.alibi_slopes + head) * kLog2E : 0.0f;
}

// tanh with a relative error of some 3e-7: caps far above the scores ask for it near 0, where the exponentials cancel.
RONDO_DEVICE float Tanh(float x) {
  const float z = x * x;
  // The series up to x^9; its next term is below 1e-8 of x where |x| < 1/4.
  float series = gpu::Fma(z, 62.0f / 2835.0f, -17.0f / 315.0f);
  series = gpu::Fma(series, z, 2.0f / 15.0f);
  series = gpu::Fma(series, z, -1.0f / 3.0f);
  const float near = gpu::Fma(x * z, series, x);
  const float far = 1.0f - 2.0f * gpu::Reciprocal(gpu::Exp2(x * (2.0f * kLog2E)) + 1.0f);
  return z < 0.0625f ? near : far;
}

// Calls f(column, half, score) for the scores a lane holds. Columns are counted from the lane's first, LaneColumn(0,
// 0): constants, so that no register holds them.
template <int kTiles, class F>
RONDO_DEVICE void ForEachScore(float (&s)[kTiles][4], F f) {
  RONDO_UNROLL
  for (int tile = 0; tile < kTiles; ++tile) {
    RONDO_UNROLL
    for (int i = 0; i < 4; ++i) f(tile * 8 + i % 2, i / 2, s[tile][i]);
  }
}

// Soft cap and ALiBi: scores q.k become units of log2. `own_key`: the rows' positions, counted like the columns.
template <int kTiles>
RONDO_DEVICE void BendScores(const ScoreArgs& args, const float (&slope)[2], const int (&own_key)[2],
                             float (&s)[kTiles][4]) {
  const float scale = args.scale * kLog2E;
  const float inner = args.softcap != 0 ? args.scale / args.softcap : 0.0f;
  const float cap = args.softcap * kLog2E;
  if (args.softcap != 0) {
    ForEachScore(s, [&](int, int, float& x) { x = cap * Tanh(x * inner); });
  } else {
    ForEachScore(s, [&](int, int, float& x) { x = x * scale; });
  }
  if (args.alibi_slopes == nullptr) return;
  const int own[2] = {own_key[0] - LaneColumn(0, 0), own_key[1] - LaneColumn(0, 0)};
  ForEachScore(s, [&](int column, int half, float& x) {
    const int away = column - own[half];
    x = gpu::Fma(-slope[half], static_cast<float>(away < 0 ? -away : away), x);
  });
}

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

// Scores a row does not see become -inf; whatever they were, NaN too, is gone.
template <int kTiles>
RONDO_DEVICE void MaskScores(const KeyInterval (&rows)[2], float (&s)[kTiles][4]) {
  const int lane = LaneColumn(0, 0);
  const KeyInterval own[2] = {{rows[0].begin - lane, rows[0].end - lane}, {rows[1].begin - lane, rows[1].end - lane}};
  ForEachScore(s, [&](int column, int half, float& x) {
    if (!own[half].Has(column)) x = MinusInfinity();
  });
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
