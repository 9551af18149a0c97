#include "model/kv/kv_arena.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bf16.h"

namespace rondo {
namespace {

void StoreRow(KvType type, const float* from, std::byte* to, int32_t count) {
  if (type == KvType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  auto* out = reinterpret_cast<uint16_t*>(to);
  for (int32_t i = 0; i < count; ++i) out[i] = FloatToBf16(from[i]);
}

}  // namespace

absl::StatusOr<KvArena> KvArena::Create(const AttentionShape& shape, int32_t layers, int64_t slots) {
  KvArena arena;
  arena.shape_ = shape;
  arena.slots_ = slots;
  arena.block_bytes_ = KvBlockBytes(shape);
  size_t blocks = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(layers), static_cast<size_t>(slots), &blocks) ||
      __builtin_mul_overflow(blocks, arena.block_bytes_, &arena.bytes_)) {
    return absl::ResourceExhaustedError(absl::StrCat("KV of ", slots, " blocks in ", layers, " layers of ",
                                                     arena.block_bytes_, " bytes each does not fit an address"));
  }
  if (arena.bytes_ == 0) return arena;
  void* p = mmap(nullptr, arena.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot map ", arena.bytes_, " bytes of KV memory"));
  }
  madvise(p, arena.bytes_, MADV_HUGEPAGE);  // decode streams it; a refusal only costs speed
  arena.data_ = static_cast<std::byte*>(p);
  return arena;
}

KvArena::KvArena(KvArena&& other) noexcept { *this = std::move(other); }

KvArena& KvArena::operator=(KvArena&& other) noexcept {
  std::swap(shape_, other.shape_);
  std::swap(slots_, other.slots_);
  std::swap(block_bytes_, other.block_bytes_);
  std::swap(bytes_, other.bytes_);
  std::swap(data_, other.data_);
  return *this;
}

KvArena::~KvArena() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

void KvArena::StoreRows(int32_t layer, int64_t slot, int64_t first_row, int64_t count, const float* k,
                        const float* v) {
  const size_t row_bytes = static_cast<size_t>(shape_.head_dim) * ElementBytes(shape_.kv_type);
  const size_t head_bytes = static_cast<size_t>(kBlockTokens) * row_bytes;
  std::byte* block = Block(layer, slot);
  for (int half = 0; half < 2; ++half) {
    const float* from = half == 0 ? k : v;
    if (from == nullptr) continue;
    std::byte* to = block + half * KvBlockValueOffset(shape_);
    for (int64_t row = 0; row < count; ++row) {
      for (int32_t head = 0; head < shape_.kv_heads; ++head) {
        StoreRow(shape_.kv_type, from + (row * shape_.kv_heads + head) * shape_.head_dim,
                 to + head * head_bytes + (first_row + row) * row_bytes, shape_.head_dim);
      }
    }
  }
}

}  // namespace rondo
