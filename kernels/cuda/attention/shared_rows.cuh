// Rows of D 16-bit elements in shared memory, laid out so that ldmatrix, which reads eight rows at one column, meets
// eight different eighths of the 128-byte line; used by the sm_80 kernels.
#pragma once

#include "kernels/cuda/device/device.h"

namespace rondo::cuda {

inline constexpr int kChunkElements = 8;  // 16 bytes, what cp.async and ldmatrix move

template <int D>
struct SharedRows {
  static constexpr int kChunks = D / kChunkElements;
  // Where a row is a whole number of lines its chunks are permuted by the row number. Other rows are padded to an odd
  // number of chunks, which comes to the same.
  static constexpr bool kPermute = kChunks % 8 == 0;
  static constexpr int kPitchBytes = (kPermute ? kChunks : kChunks | 1) * 16;

  static constexpr int Bytes(int rows) { return rows * kPitchBytes; }

  RONDO_DEVICE static gpu::Shared At(gpu::Shared base, int row, int chunk) {
    return base + static_cast<gpu::Shared>(row * kPitchBytes + (kPermute ? chunk ^ (row & 7) : chunk) * 16);
  }

  // Starts the copy of kRows rows, of which [valid_begin, valid_end) exist; the others become zeros.
  template <int kRows, int kThreads>
  RONDO_DEVICE static void CopyFrom(const uint16_t* from, int64_t row_stride, int valid_begin, int valid_end,
                                    gpu::Shared to) {
    RONDO_UNROLL
    for (int i = 0; i < (kRows * kChunks + kThreads - 1) / kThreads; ++i) {
      const int index = i * kThreads + gpu::ThreadIndex();
      if (kRows * kChunks % kThreads != 0 && index >= kRows * kChunks) break;
      const int row = index / kChunks;
      const int chunk = index % kChunks;
      const bool valid = row >= valid_begin && row < valid_end;
      // What is not valid is not read, but its address must still be one of ours.
      const uint16_t* source = from + (valid ? row : valid_begin) * row_stride + chunk * kChunkElements;
      gpu::CopyAsync16(At(to, row, chunk), source, valid);
    }
  }
};

}  // namespace rondo::cuda
