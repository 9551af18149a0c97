// Elements of GGUF weight blocks, one at a time: code, scale and minimum as kernels/cpu/dense/block_codes.h defines
// them and docs/ALGORITHMS.md lists them. Used where weights are read once, at load or a row at a time: not for speed.
#pragma once

#include "kernels/cuda/dense/args.h"
#include "kernels/cuda/dense/primitives.cuh"

namespace rondo::cuda {

// Blocks lie on 2 bytes, all types' sizes being even.
RONDO_DEVICE float HalfAt(const uint8_t* p) {
  return gpu::FloatFromHalf(gpu::Load(reinterpret_cast<const uint16_t*>(p)));
}
RONDO_DEVICE int ByteAt(const uint8_t* p) { return gpu::Load(p); }
RONDO_DEVICE int BitAt(const uint8_t* p, int i) { return ByteAt(p + i / 8) >> (i % 8) & 1; }

// Element i of the 32 four-bit codes in 16 bytes: low halves first.
RONDO_DEVICE int Nibble32(const uint8_t* p, int i) { return i < 16 ? ByteAt(p + i) & 15 : ByteAt(p + i - 16) >> 4; }
// Element i of the 256 in 128 bytes: each 32 bytes hold 64, low halves first.
RONDO_DEVICE int Nibble256(const uint8_t* p, int i) {
  return ByteAt(p + i / 64 * 32 + i % 32) >> (i / 32 % 2 * 4) & 15;
}

// Six-bit scale and minimum of sub-block j = 0..7 of a Q4_K or Q5_K block, from its twelve bytes.
RONDO_DEVICE int SixBitScale(const uint8_t* q, int j) {
  return j < 4 ? ByteAt(q + j) & 63 : (ByteAt(q + j + 4) & 15) | ByteAt(q + j - 4) >> 6 << 4;
}
RONDO_DEVICE int SixBitMinimum(const uint8_t* q, int j) {
  return j < 4 ? ByteAt(q + j + 4) & 63 : ByteAt(q + j + 4) >> 4 | ByteAt(q + j) >> 6 << 4;
}

// Types of blocks: kElements, kBytes, kHasMinimum and the three parts of element i.
template <WeightType kType>
struct WeightBlock;

template <int kBytesOfBlock, bool kMinimum>
struct Block32 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = kBytesOfBlock;
  static constexpr bool kHasMinimum = kMinimum;
  RONDO_DEVICE static float Scale(const uint8_t* block, int) { return HalfAt(block); }
  RONDO_DEVICE static float Minimum(const uint8_t* block, int) { return kMinimum ? HalfAt(block + 2) : 0.0f; }
};

template <>
struct WeightBlock<WeightType::kQ4_0> : Block32<18, false> {
  RONDO_DEVICE static int Code(const uint8_t* block, int i) { return Nibble32(block + 2, i) - 8; }
};
template <>
struct WeightBlock<WeightType::kQ4_1> : Block32<20, true> {
  RONDO_DEVICE static int Code(const uint8_t* block, int i) { return Nibble32(block + 4, i); }
};
template <>
struct WeightBlock<WeightType::kQ5_0> : Block32<22, false> {
  RONDO_DEVICE static int Code(const uint8_t* block, int i) {
    return (Nibble32(block + 6, i) | BitAt(block + 2, i) << 4) - 16;
  }
};
template <>
struct WeightBlock<WeightType::kQ5_1> : Block32<24, true> {
  RONDO_DEVICE static int Code(const uint8_t* block, int i) {
    return Nibble32(block + 8, i) | BitAt(block + 4, i) << 4;
  }
};
template <>
struct WeightBlock<WeightType::kQ8_0> : Block32<34, false> {
  RONDO_DEVICE static int Code(const uint8_t* block, int i) { return static_cast<int8_t>(ByteAt(block + 2 + i)); }
};

template <int kBytesOfBlock>
struct Block256WithMinimum {
  static constexpr int kElements = 256;
  static constexpr int kBytes = kBytesOfBlock;
  static constexpr bool kHasMinimum = true;
  RONDO_DEVICE static float Scale(const uint8_t* block, int i) {
    return HalfAt(block) * static_cast<float>(SixBitScale(block + 4, i / 32));
  }
  RONDO_DEVICE static float Minimum(const uint8_t* block, int i) {
    return -(HalfAt(block + 2) * static_cast<float>(SixBitMinimum(block + 4, i / 32)));
  }
};

template <>
struct WeightBlock<WeightType::kQ4_K> : Block256WithMinimum<144> {
  RONDO_DEVICE static int Code(const uint8_t* block, int i) { return Nibble256(block + 16, i); }
};
template <>
struct WeightBlock<WeightType::kQ5_K> : Block256WithMinimum<176> {
  RONDO_DEVICE static int Code(const uint8_t* block, int i) {
    return Nibble256(block + 48, i) | (ByteAt(block + 16 + i % 32) >> (i / 32) & 1) << 4;
  }
};
template <>
struct WeightBlock<WeightType::kQ6_K> {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 210;
  static constexpr bool kHasMinimum = false;
  // Two halves of 128; the low four bits of element i of a half are in byte i % 64, its high two in byte i % 32.
  RONDO_DEVICE static int Code(const uint8_t* block, int i) {
    const int half = i / 128, in_half = i % 128;
    const int low = ByteAt(block + half * 64 + in_half % 64) >> (in_half / 64 * 4) & 15;
    const int high = ByteAt(block + 128 + half * 32 + in_half % 32) >> (in_half / 32 * 2) & 3;
    return (low | high << 4) - 32;
  }
  RONDO_DEVICE static float Scale(const uint8_t* block, int i) {
    return HalfAt(block + 208) * static_cast<float>(static_cast<int8_t>(ByteAt(block + 192 + i / 16)));
  }
  RONDO_DEVICE static float Minimum(const uint8_t*, int) { return 0.0f; }
};

// Element i of a row as float: scale * code, then + minimum where the type has one, each operation rounded.
template <WeightType kType>
RONDO_DEVICE float WeightAt(const uint8_t* row, int64_t i) {
  if constexpr (kType == WeightType::kF32) {
    return gpu::Load(reinterpret_cast<const float*>(row) + i);
  } else if constexpr (kType == WeightType::kF16) {
    return HalfAt(row + i * 2);
  } else if constexpr (kType == WeightType::kBF16) {
    return gpu::FloatFromBits(uint32_t{gpu::Load(reinterpret_cast<const uint16_t*>(row) + i)} << 16);
  } else {
    using Block = WeightBlock<kType>;
    const uint8_t* block = row + i / Block::kElements * Block::kBytes;
    const int in_block = static_cast<int>(i % Block::kElements);
    const float product = Block::Scale(block, in_block) * static_cast<float>(Block::Code(block, in_block));
    return Block::kHasMinimum ? product + Block::Minimum(block, in_block) : product;
  }
}

}  // namespace rondo::cuda
