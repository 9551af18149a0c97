// TMA of sm_90: tiles of tensors of two to four dimensions, 16-bit elements, to shared memory with 128-byte swizzle.
#pragma once

#include <array>
#include <cstdint>

#include "tests/testing/simt/options.h"

namespace rondo::simt {

// What cuTensorMapEncodeTiled is told. Dimension 0 lies side by side.
struct TensorMap {
  const uint16_t* base = nullptr;
  int dimensions = 0;
  std::array<uint64_t, 4> size = {};
  std::array<uint64_t, 4> stride = {};  // in elements; [0] is 1
  std::array<uint32_t, 4> box = {};
};

// Where the byte at `address` of an unswizzled tile lies: in each eight lines of 128 bytes, the 16-byte chunk is
// permuted by the number of the line.
constexpr uint32_t Swizzle128(uint32_t address) { return address ^ (address >> 3 & 0x70); }

// Starts the copy of the box at `coordinates`; what lies outside of the tensor becomes zeros. All its bytes count at
// the mbarrier when they have landed; until then the destination holds NaN. The memory read is checked as every other.
void TmaLoad(uint32_t destination, const TensorMap& map, std::array<int, 4> coordinates, uint32_t mbarrier,
             CallSite site);

}  // namespace rondo::simt
