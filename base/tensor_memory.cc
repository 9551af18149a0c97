#include "rondo/tensor_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace rondo {
namespace {

// From here on a mapping of its own: large pages are 2 MiB, and what is not written costs nothing.
constexpr size_t kMapFrom = size_t{1} << 20;

class Host : public TensorMemory {
 public:
  void* Allocate(size_t bytes) override {
    if (bytes < kMapFrom) return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    madvise(p, bytes, MADV_HUGEPAGE);  // decode streams keys and values; a refusal only costs speed
    return p;
  }
  void Free(void* p, size_t bytes) override {
    if (bytes < kMapFrom) {
      std::free(p);
    } else {
      munmap(p, bytes);
    }
  }
  bool is_host() const override { return true; }
  bool Owns(const void*) const override { return true; }
  void Copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
};

}  // namespace

TensorMemory& TensorMemory::staging() { return HostMemory(); }

TensorMemory& HostMemory() {
  static Host memory;
  return memory;
}

std::byte* TensorBuffer::Grow(size_t bytes) {
  if (!TryGrow(bytes)) throw std::bad_alloc();
  return data_;
}

}  // namespace rondo
