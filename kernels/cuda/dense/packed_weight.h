// How the weights of MatMulFewRows lie in device memory: codes in the order in which lanes feed them to the tensor
// core. Used by the packing kernel, the matmul and those who allocate.
//
// Weight rows are cut into tiles of 16 (the m of mma.m16n8k16) and columns into groups of four blocks of 32. A warp
// multiplies one tile by one group at a time, from words of 16 bytes a lane:
//
//   codes   [tiles][groups][half][words][lane]   half: rows lane / 4 of the tile, or those plus 8
//   scales  [tiles][groups or pairs][16 rows]    as the file has them: see PackedScales
//
// so that a warp's load is 512 bytes in a row, and a CTA reads its tile from end to end. Of each block of 32 a lane
// holds elements 8 * (lane % 4) + [0, 8): which element meets which is up to us as long as the activations agree. Rows
// and columns that do not fill a tile or a group have zero codes and scales.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "rondo/dense_kernels.h"

namespace rondo::cuda {

inline constexpr int kPackTileRows = 16;
inline constexpr int kPackBlock = 32;
inline constexpr int kPackGroupBlocks = 4;
inline constexpr int kPackGroup = kPackBlock * kPackGroupBlocks;

// Of a type: bytes of scales a row for each kScaleGroups groups, and words of codes a lane for each group.
template <WeightType kType>
struct PackedType;
template <>
struct PackedType<WeightType::kQ4_1> {
  static constexpr int kCodeWords = 1;
  static constexpr int kScaleGroups = 1;
  static constexpr int kScaleBytes = 16;  // four times scale and minimum
};
template <>
struct PackedType<WeightType::kQ8_0> {
  static constexpr int kCodeWords = 2;
  static constexpr int kScaleGroups = 1;
  static constexpr int kScaleBytes = 8;  // four scales
};
template <>
struct PackedType<WeightType::kQ4_K> {
  static constexpr int kCodeWords = 1;
  static constexpr int kScaleGroups = 2;
  static constexpr int kScaleBytes = 16;  // the block's own head: d, dmin, twelve bytes of sub-scales
};

// Where things are in the packed weight.
template <WeightType kType>
struct PackedWeight {
  using Type = PackedType<kType>;
  int32_t tiles;
  int32_t groups;  // a multiple of kScaleGroups

  constexpr PackedWeight(int32_t rows, int32_t cols)
      : tiles((rows + kPackTileRows - 1) / kPackTileRows),
        groups((cols + kPackGroup * Type::kScaleGroups - 1) / (kPackGroup * Type::kScaleGroups) * Type::kScaleGroups) {}

  // In words of 16 bytes from the beginning.
  constexpr int64_t CodeWord(int32_t tile, int32_t group, int half, int word, int lane) const {
    return (((int64_t{tile} * groups + group) * 2 + half) * Type::kCodeWords + word) * 32 + lane;
  }
  // In bytes from the beginning. `row` counts from the tile's first.
  constexpr int64_t ScaleByte(int32_t tile, int32_t group, int row) const {
    const int64_t unit = int64_t{tile} * (groups / Type::kScaleGroups) + group / Type::kScaleGroups;
    return CodeWord(tiles, 0, 0, 0, 0) * 16 + (unit * kPackTileRows + row) * Type::kScaleBytes;
  }
  constexpr int64_t bytes() const { return ScaleByte(tiles, 0, 0); }
};

constexpr bool CanPack(WeightType type) {
  return type == WeightType::kQ4_1 || type == WeightType::kQ8_0 || type == WeightType::kQ4_K;
}

// Calls f.operator()<type>() for the types that can be packed.
template <class F>
auto WithPackedType(WeightType type, F f) {
  RONDO_CHECK(CanPack(type));
  switch (type) {
    case WeightType::kQ4_1:
      return f.template operator()<WeightType::kQ4_1>();
    case WeightType::kQ8_0:
      return f.template operator()<WeightType::kQ8_0>();
    default:
      return f.template operator()<WeightType::kQ4_K>();
  }
}

inline int64_t PackedWeightBytes(WeightType type, int32_t rows, int32_t cols) {
  return WithPackedType(type, [&]<WeightType kType>() { return PackedWeight<kType>(rows, cols).bytes(); });
}

}  // namespace rondo::cuda
