// Packs a weight, as it lies in a GGUF file, for MatMulFewRows; once, at load.
#pragma once

#include "kernels/cuda/dense/packed_weight.h"
#include "kernels/cuda/dense/weight_blocks.cuh"

namespace rondo::cuda {

inline constexpr int kPackThreads = 256;

// Makes the words of one weight; elements past its end are zero.
template <WeightType kType>
class Packer {
 public:
  using Block = WeightBlock<kType>;

  RONDO_DEVICE explicit Packer(const PackArgs& args) : args_(args), shape_(args.rows, args.cols) {}

  RONDO_DEVICE const PackedWeight<kType>& shape() const { return shape_; }

  RONDO_DEVICE void PackCodes(int tile, int group, int half, int word, int lane) const {
    const int row = tile * kPackTileRows + half * 8 + lane / 4;
    uint32_t parts[4];
    RONDO_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int block = group * kPackGroupBlocks + (kType == WeightType::kQ8_0 ? word * 2 + i / 2 : i);
      const int col = block * kPackBlock + 8 * (lane % 4);
      parts[i] = kType == WeightType::kQ8_0 ? FourBytes(row, col + i % 2 * 4) : EightNibbles(row, col);
    }
    auto* words = reinterpret_cast<gpu::Word4*>(args_.packed);
    gpu::Store(words + shape_.CodeWord(tile, group, half, word, lane), {parts[0], parts[1], parts[2], parts[3]});
  }

  // The scales of one row of a tile for as many groups as lie together.
  RONDO_DEVICE void PackScales(int tile, int group, int row_of_tile) const {
    const int row = tile * kPackTileRows + row_of_tile;
    auto* to = reinterpret_cast<uint16_t*>(args_.packed + shape_.ScaleByte(tile, group, row_of_tile));
    if constexpr (kType == WeightType::kQ4_K) {
      // The first 16 bytes of a block are all of its scales.
      for (int i = 0; i < 8; ++i) gpu::Store(to + i, HalfOfBlock(row, group * kPackGroup, i));
    } else {
      constexpr int kHalves = PackedType<kType>::kScaleBytes / 2 / kPackGroupBlocks;
      for (int i = 0; i < kPackGroupBlocks * kHalves; ++i) {
        gpu::Store(to + i, HalfOfBlock(row, group * kPackGroup + i / kHalves * kPackBlock, i % kHalves));
      }
    }
  }

 private:
  RONDO_DEVICE bool Exists(int row, int col) const { return row < args_.rows && col < args_.cols; }
  RONDO_DEVICE const uint8_t* BlockAt(int row, int col) const {
    return args_.weight + row * args_.row_bytes + int64_t{col / Block::kElements} * Block::kBytes;
  }
  RONDO_DEVICE uint32_t Code(int row, int col) const {
    return Exists(row, col) ? static_cast<uint32_t>(Block::Code(BlockAt(row, col), col % Block::kElements)) : 0u;
  }
  // The i-th 16 bits of the block that holds the column.
  RONDO_DEVICE uint16_t HalfOfBlock(int row, int col, int i) const {
    if (!Exists(row, col)) return 0;
    return gpu::Load(reinterpret_cast<const uint16_t*>(BlockAt(row, col)) + i);
  }

  // Eight neighbours such that nibbles p and p + 4, 16 bits apart, are elements 2p and 2p + 1: a pair of an mma
  // operand.
  RONDO_DEVICE uint32_t EightNibbles(int row, int col) const {
    uint32_t word = 0;
    for (int i = 0; i < 8; ++i) word |= Code(row, col + i) << (4 * (i / 2 + i % 2 * 4));
    return word;
  }
  // Four neighbours such that bytes p and p + 2 are elements 2p and 2p + 1.
  RONDO_DEVICE uint32_t FourBytes(int row, int col) const {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word |= (Code(row, col + i) & 0xff) << (8 * (i / 2 + i % 2 * 2));
    return word;
  }

  const PackArgs& args_;
  PackedWeight<kType> shape_;
};

// A warp takes one tile and group at a time.
template <WeightType kType>
RONDO_KERNEL(kPackThreads, 1)
PackWeight(RONDO_GRID_CONSTANT const PackArgs args) {
  using Type = PackedType<kType>;
  const Packer<kType> packer(args);
  const int lane = gpu::LaneIndex();
  const int64_t units = int64_t{packer.shape().tiles} * packer.shape().groups;
  const int64_t step = int64_t{gpu::CtaCount()} * (kPackThreads / 32);
  for (int64_t unit = int64_t{gpu::CtaIndex()} * (kPackThreads / 32) + gpu::ThreadIndex() / 32; unit < units;
       unit += step) {
    const int tile = static_cast<int>(unit / packer.shape().groups);
    const int group = static_cast<int>(unit % packer.shape().groups);
    for (int i = 0; i < 2 * Type::kCodeWords; ++i) packer.PackCodes(tile, group, i % 2, i / 2, lane);
    if (group % Type::kScaleGroups == 0 && lane < kPackTileRows) packer.PackScales(tile, group, lane);
  }
}

}  // namespace rondo::cuda
