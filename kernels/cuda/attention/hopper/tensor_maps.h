// The two tensor maps of a launch of the sm_90a kernel: what TMA is told of queries, and of keys and values. Plain
// numbers, which the launcher has the driver encode and tests hand to the emulator.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/attention/args.h"

namespace rondo::cuda {

// Dimension 0 lies side by side. Sizes and boxes count elements of 16 bits, strides bytes.
struct MapSpec {
  uint64_t base = 0;
  int dimensions = 0;
  std::array<uint64_t, 4> size = {};
  std::array<uint64_t, 4> stride_bytes = {};  // of dimensions 1 and up; [0] is not used
  std::array<uint32_t, 4> box = {};
};

inline constexpr uint32_t kMapColumns = 64;  // a line of 128 bytes, what the swizzle permutes

// Queries: columns, rows, heads. Rows past the last one read as zeros.
inline MapSpec QueryMap(const AttentionArgs& args, int head_dim) {
  const QueryArgs& query = args.query;
  // The stride of a dimension of one means nothing, and need not be one that TMA takes.
  const int64_t row_stride = query.rows > 1 ? query.row_stride : head_dim;
  const int64_t head_stride = args.q_heads > 1 ? query.head_stride : head_dim;
  return {
      .base = reinterpret_cast<uintptr_t>(query.q),
      .dimensions = 3,
      .size = {static_cast<uint64_t>(head_dim), static_cast<uint64_t>(query.rows), static_cast<uint64_t>(args.q_heads)},
      .stride_bytes = {0, static_cast<uint64_t>(row_stride) * 2, static_cast<uint64_t>(head_stride) * 2},
      .box = {kMapColumns, 64, 1}};
}

// Keys and values lie in pages anywhere, and which pages is known on the device alone. So their map knows no tensor but
// all of memory, and how rows lie from wherever they begin: columns, 64 rows, and the address of the first in two
// dimensions, by 16 bytes and by MiB. One map serves both.
inline constexpr uint64_t kMapUnitBytes = 16;
inline constexpr int kMapUnitsLog2 = 16;                              // of a MiB
inline constexpr uint64_t kMapBase = kMapUnitBytes << kMapUnitsLog2;  // lower than any memory of a GPU, and not null

inline MapSpec KeyMap(const AttentionArgs& args, int head_dim) {
  const int64_t row_stride = args.keys.tokens > 0 ? args.keys.row_stride : head_dim;
  return {.base = kMapBase,
          .dimensions = 4,
          .size = {static_cast<uint64_t>(head_dim), 64, uint64_t{1} << kMapUnitsLog2, uint64_t{1} << 31},
          .stride_bytes = {0, static_cast<uint64_t>(row_stride) * 2, kMapUnitBytes, kMapUnitBytes << kMapUnitsLog2},
          .box = {kMapColumns, 64, 1, 1}};
}

}  // namespace rondo::cuda
