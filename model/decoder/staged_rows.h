// Rows that lie in host memory for attention and callers, and in the kernels' memory for the dense layers: one array
// where the two are the same, else two and a copy; used by the decoder.
#pragma once

#include <cstdint>

#include "rondo/tensor_memory.h"

namespace rondo {

// On CPUs Window, Fetch and Keep are arithmetic on a pointer. With kernels on a device only the window lies there, so
// that its memory is a row block's and not a prompt's. Storage only grows. One thread at a time.
class StagedRows {
 public:
  // The memory outlives this.
  explicit StagedRows(TensorMemory& memory) : memory_(memory), storage_(memory.staging()), window_(memory) {}

  // Room for rows [rows, width] in host memory; what was there is lost.
  float* Resize(int64_t rows, int64_t width) {
    storage_.Grow(rows * width * sizeof(float));
    PlaceOver(reinterpret_cast<float*>(storage_.data()), width);
    return host_;
  }
  // The same over the caller's memory, which stays until the next call of either.
  void PlaceOver(float* host, int64_t width) {
    host_ = host;
    width_ = width;
  }

  // Whether a window of that many rows will find its memory; on CPUs it needs none.
  bool TryReserve(int64_t count, int64_t width) {
    return memory_.is_host() || window_.TryGrow(count * width * sizeof(float));
  }

  float* host() const { return host_; }

  // Where kernels write rows [first, first + count); on a device until the next Window or Fetch.
  float* Window(int64_t first, int64_t count) {
    if (memory_.is_host()) return host_ + first * width_;
    return reinterpret_cast<float*>(window_.Grow(Bytes(count)));
  }
  // The same with what the host rows hold.
  float* Fetch(int64_t first, int64_t count) {
    float* const window = Window(first, count);
    if (!memory_.is_host() && count > 0) memory_.Copy(window, host_ + first * width_, Bytes(count));
    return window;
  }
  // The window's rows to the host's, once the kernels before have written them.
  void Keep(int64_t first, int64_t count) { KeepAll({this}, first, count); }
  // Several at once, in one memory.
  template <size_t n>
  static void KeepAll(StagedRows* const (&all)[n], int64_t first, int64_t count) {
    if (all[0]->memory_.is_host() || count == 0) return;
    MemoryCopy copies[n];
    for (size_t i = 0; i < n; ++i) {
      copies[i] = {all[i]->host_ + first * all[i]->width_, all[i]->window_.data(), all[i]->Bytes(count)};
    }
    all[0]->memory_.CopyAll(copies);
  }

 private:
  size_t Bytes(int64_t count) const { return count * width_ * sizeof(float); }

  TensorMemory& memory_;
  TensorBuffer storage_;  // in host memory
  TensorBuffer window_;   // in the kernels' memory, where that is a device's
  float* host_ = nullptr;
  int64_t width_ = 0;
};

}  // namespace rondo
