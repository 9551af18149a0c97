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

  // Starts the copy of kRows rows, of which [valid_begin, valid_end) exist; the others become zeros. A thread keeps to
  // one column of chunks; where they do not divide the threads, the last few threads have none.
  template <int kRows, int kThreads>
  RONDO_DEVICE static void CopyFrom(const uint16_t* from, int64_t row_stride, int valid_begin, int valid_end,
                                    gpu::Shared to) {
    constexpr int kRowsAtOnce = kThreads / kChunks;
    const int chunk = gpu::ThreadIndex() % kChunks;
    const int first = gpu::ThreadIndex() / kChunks;
    if (kThreads % kChunks != 0 && first >= kRowsAtOnce) return;
    const uint16_t* source = from + first * row_stride + chunk * kChunkElements;
    RONDO_UNROLL_BY(4)  // more need registers that attention does not have
    for (int pass = 0; pass < (kRows + kRowsAtOnce - 1) / kRowsAtOnce; ++pass) {
      const int row = first + pass * kRowsAtOnce;
      if (kRows % kRowsAtOnce != 0 && row >= kRows) return;
      gpu::CopyAsync16(At(to, row, chunk), source, row >= valid_begin && row < valid_end);
      source += kRowsAtOnce * row_stride;
    }
  }

  // Calls f(shared address) for the chunks this thread copied.
  template <int kRows, int kThreads, class F>
  RONDO_DEVICE static void ForOwnChunks(gpu::Shared base, F f) {
    constexpr int kRowsAtOnce = kThreads / kChunks;
    const int first = gpu::ThreadIndex() / kChunks;
    if (kThreads % kChunks != 0 && first >= kRowsAtOnce) return;
    for (int row = first; row < kRows; row += kRowsAtOnce) f(At(base, row, gpu::ThreadIndex() % kChunks));
  }
};

}  // namespace rondo::cuda
