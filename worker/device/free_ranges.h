// Which parts of a few large stretches of device memory are free: ModuleGpu cuts what the ring asks for out of them, so
// that memory other processes have opened is never given back to the driver while they may read it. (CUDA's own pools
// cannot be opened by cudaIpcOpenMemHandle.)
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"

namespace rondo {

// Addresses only; nothing is touched. One thread at a time.
class FreeRanges {
 public:
  // A stretch of the driver's, all of it free.
  void Add(std::byte* base, size_t bytes);

  // The smallest free range that holds `bytes`, from its beginning; null where none does.
  std::byte* Take(size_t bytes);
  // What Take gave, whole.
  void Give(std::byte* p, size_t bytes);

  bool Owns(const void* p) const;
  std::vector<std::byte*> stretches() const;

  // Forgets the stretches of which nothing is taken and that may go, for their owner to free.
  std::vector<std::byte*> RemoveIdle(absl::FunctionRef<bool(std::byte* base)> may_go);

 private:
  std::map<std::byte*, size_t> stretches_;
  // Neighbours are always one range, but over the border of two stretches, which the driver knows apart.
  std::map<std::byte*, size_t> free_;
};

}  // namespace rondo
