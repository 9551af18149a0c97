// Where the big tensors live: keys and values, blocks on their way round the ring, partial nodes, the decoder's rows.
// Host memory for CPU kernels, a device's for others; used by the KV cache, the ring and the decoder, which copy through
// it and never look inside.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace rondo {

// `bytes` from one place to another; none may be null where there are bytes.
struct MemoryCopy {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
};

class TensorMemory {
 public:
  virtual ~TensorMemory() = default;

  // At least 64-byte aligned, contents unspecified; null when there is no more. Any thread.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* p, size_t bytes) = 0;

  // Host memory that Copy is quickest with.
  virtual TensorMemory& staging();

  // Whether programs may read and write it as they do any memory.
  virtual bool is_host() const = 0;
  // Whether `p` points into something allocated here; of host memory always true.
  virtual bool Owns(const void* p) const = 0;

  // Either end may be here or in host memory. Everything that was to write `from` has written it, and the copy is done
  // when this returns. A device that fails ends the process: there is no answer without it.
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;
  // Several that do not overlap: a device is waited for once.
  virtual void CopyAll(std::span<const MemoryCopy> copies) {
    for (const MemoryCopy& copy : copies) Copy(copy.to, copy.from, copy.bytes);
  }
};

// Pages are touched as they are written, and large where the system gives such.
TensorMemory& HostMemory();

// An owned stretch of such memory that only grows: what a hot loop asks for and, after the first call, always has.
class TensorBuffer {
 public:
  explicit TensorBuffer(TensorMemory& memory = HostMemory()) : memory_(&memory) {}
  ~TensorBuffer() { Reset(); }
  TensorBuffer(TensorBuffer&& other) noexcept : memory_(other.memory_) { *this = std::move(other); }
  TensorBuffer& operator=(TensorBuffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // False when there is no memory; then it is as large as before, if nobody took that meanwhile. Contents are lost
  // either way.
  [[nodiscard]] bool TryGrow(size_t bytes) {
    if (bytes <= bytes_) return true;
    const size_t before = bytes_;
    Reset();  // first: there may be no room for both
    if (Take(bytes)) return true;
    if (before > 0) Take(before);
    return false;
  }
  // Throws std::bad_alloc.
  std::byte* Grow(size_t bytes);

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  TensorMemory& memory() const { return *memory_; }

 private:
  bool Take(size_t bytes) {
    data_ = static_cast<std::byte*>(memory_->Allocate(bytes));
    if (data_ != nullptr) bytes_ = bytes;
    return data_ != nullptr;
  }
  void Reset() {
    if (data_ != nullptr) memory_->Free(data_, bytes_);
    data_ = nullptr;
    bytes_ = 0;
  }

  TensorMemory* memory_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace rondo
