#include "tests/model/gguf/largest_allocation.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<size_t> g_largest{0};
}  // namespace

void* operator new(size_t bytes) {
  if (bytes > g_largest) g_largest = bytes;
  void* p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace rondo {

void ForgetAllocations() { g_largest = 0; }
size_t LargestAllocation() { return g_largest; }

}  // namespace rondo
