// Aligned, uninitialised arrays for kernels, KV blocks and messages.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace rondo {

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};

template <typename T>
using AlignedArray = std::unique_ptr<T[], FreeDeleter>;

// 64-byte aligned (a cache line, and a zmm register). Pages are touched only when written. Throws std::bad_alloc.
template <typename T>
AlignedArray<T> MakeAligned(size_t count) {
  const size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
  if (count > SIZE_MAX / sizeof(T) - 64) throw std::bad_alloc();
  void* p = std::aligned_alloc(64, bytes == 0 ? 64 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  return AlignedArray<T>(static_cast<T*>(p));
}

// An aligned array that only grows: scratch that a hot loop asks for and, after the first call, always has.
template <typename T>
class Scratch {
 public:
  T* Get(size_t count) {
    if (count > capacity_) {
      data_ = MakeAligned<T>(count);
      capacity_ = count;
    }
    return data_.get();
  }
  T* data() const { return data_.get(); }

 private:
  AlignedArray<T> data_;
  size_t capacity_ = 0;
};

}  // namespace rondo
