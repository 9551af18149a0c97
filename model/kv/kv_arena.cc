#include "model/kv/kv_arena.h"

#include <cstring>

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

absl::StatusOr<KvArena> KvArena::Create(const AttentionShape& shape, int32_t layers, int64_t slots,
                                        TensorMemory& memory) {
  KvArena arena(memory);
  arena.shape_ = shape;
  arena.slots_ = slots;
  arena.block_bytes_ = KvBlockBytes(shape);
  size_t blocks = 0, bytes = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(layers), static_cast<size_t>(slots), &blocks) ||
      __builtin_mul_overflow(blocks, arena.block_bytes_, &bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("KV of ", slots, " blocks in ", layers, " layers of ",
                                                     arena.block_bytes_, " bytes each does not fit an address"));
  }
  if (!arena.data_.TryGrow(bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot map ", bytes, " bytes of KV memory"));
  }
  return arena;
}

void KvArena::StoreRows(int32_t layer, int64_t slot, int64_t first_row, int64_t count, const float* k, const float* v) {
  const size_t row_bytes = static_cast<size_t>(shape_.head_dim) * ElementBytes(shape_.kv_type);
  const size_t head_bytes = static_cast<size_t>(kBlockTokens) * row_bytes;
  std::byte* block = Block(layer, slot);
  for (int half = 0; half < 2; ++half) {
    const float* from = half == 0 ? k : v;
    if (from == nullptr) continue;
    std::byte* to = block + half * KvBlockValueOffset(shape_) + first_row * row_bytes;
    if (!data_.memory().is_host()) {
      StoreOnDevice(to, from, count);
      continue;
    }
    for (int64_t row = 0; row < count; ++row) {
      for (int32_t head = 0; head < shape_.kv_heads; ++head) {
        StoreRow(shape_.kv_type, from + (row * shape_.kv_heads + head) * shape_.head_dim,
                 to + head * head_bytes + row * row_bytes, shape_.head_dim);
      }
    }
  }
}

// Rounded here, so that half as much travels; all heads are waited for once.
void KvArena::StoreOnDevice(std::byte* to, const float* from, int64_t count) {
  const size_t row_bytes = static_cast<size_t>(shape_.head_dim) * ElementBytes(shape_.kv_type);
  const size_t head_bytes = static_cast<size_t>(count) * row_bytes;
  const std::lock_guard<std::mutex> lock(staged_->mutex);
  staged_->copies.clear();
  std::byte* const rows = staged_->head_rows.Grow(shape_.kv_heads * head_bytes);
  for (int32_t head = 0; head < shape_.kv_heads; ++head) {
    for (int64_t row = 0; row < count; ++row) {
      StoreRow(shape_.kv_type, from + (row * shape_.kv_heads + head) * shape_.head_dim,
               rows + head * head_bytes + row * row_bytes, shape_.head_dim);
    }
    staged_->copies.push_back({to + head * kBlockTokens * row_bytes, rows + head * head_bytes, head_bytes});
  }
  data_.memory().CopyAll(staged_->copies);
}

}  // namespace rondo
