// Large arrays that a client fills: mapped, zero until written, on huge pages where the system gives them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace rondo {

// Untouched pages cost no memory. Aligned to a page.
template <typename T>
class HugeArray {
 public:
  HugeArray() = default;
  // Throws std::bad_alloc.
  explicit HugeArray(size_t count) : bytes_(count * sizeof(T)) {
    if (count > SIZE_MAX / 2 / sizeof(T)) throw std::bad_alloc();
    if (count == 0) return;
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    madvise(p, bytes_, MADV_HUGEPAGE);  // a refusal only costs speed
    data_ = static_cast<T*>(p);
  }
  ~HugeArray() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  HugeArray(HugeArray&& other) noexcept { *this = std::move(other); }
  HugeArray& operator=(HugeArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  T* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  T* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace rondo
