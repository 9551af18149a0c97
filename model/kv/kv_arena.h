// The KV blocks one rank keeps of one sequence, all layers: fixed slots of one canonical block each; used by
// LocalAttention and, through the shard plan, by the ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "rondo/attention_kernels.h"

namespace rondo {

// Layer-major: the slots of a layer are contiguous, so a run of slots goes round the ring without a copy. Memory is
// reserved at once and touched as it is written, so resident size follows the tokens. Threads may store rows that do
// not overlap; else one at a time.
class KvArena {
 public:
  // RESOURCE_EXHAUSTED when the address space or an integer cannot hold it, or `memory` has no more.
  static absl::StatusOr<KvArena> Create(const AttentionShape& shape, int32_t layers, int64_t slots,
                                        TensorMemory& memory = HostMemory());

  const AttentionShape& shape() const { return shape_; }
  int64_t slots() const { return slots_; }
  size_t block_bytes() const { return block_bytes_; }
  size_t reserved_bytes() const { return data_.bytes(); }

  std::byte* Block(int32_t layer, int64_t slot) {
    return data_.data() + (static_cast<size_t>(layer) * slots_ + slot) * block_bytes_;
  }
  const std::byte* Block(int32_t layer, int64_t slot) const { return const_cast<KvArena*>(this)->Block(layer, slot); }

  // Writes `count` rows of k and v, each [count, kv_heads, head_dim] float32, as rows [first_row, first_row + count) of
  // one slot, rounding to the arena's KV type. A null k or v leaves that half as it is.
  void StoreRows(int32_t layer, int64_t slot, int64_t first_row, int64_t count, const float* k, const float* v);

 private:
  explicit KvArena(TensorMemory& memory) : data_(memory) {
    if (!memory.is_host()) staged_ = std::make_unique<Staged>(memory.staging());
  }
  void StoreOnDevice(std::byte* to, const float* from, int64_t count);

  AttentionShape shape_;
  int64_t slots_ = 0;
  size_t block_bytes_ = 0;
  TensorBuffer data_;

  // On their way to a device; uploads come on several threads, of rows that do not overlap.
  struct Staged {
    explicit Staged(TensorMemory& memory) : head_rows(memory) {}
    std::mutex mutex;
    TensorBuffer head_rows;
    std::vector<MemoryCopy> copies;
  };
  std::unique_ptr<Staged> staged_;  // null where the memory is the host's
};

}  // namespace rondo
