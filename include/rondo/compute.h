// The arithmetic a group runs in: compute mode and KV type; part of every fingerprint, used by all parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rondo {

// kF32: weights dequantised, float32 arithmetic: the accuracy reference.
// kQ8: activations in int8 blocks of 32 against quantised weights, integer dot products; the default for them.
enum class ComputeMode : uint8_t { kF32, kQ8 };

// How keys and values are kept and sent round the ring.
enum class KvType : uint8_t { kF32, kBf16 };

constexpr std::string_view Name(ComputeMode mode) { return mode == ComputeMode::kF32 ? "f32" : "q8"; }
constexpr std::string_view Name(KvType type) { return type == KvType::kF32 ? "f32" : "bf16"; }

constexpr std::optional<ComputeMode> ParseComputeMode(std::string_view text) {
  if (text == "f32") return ComputeMode::kF32;
  if (text == "q8") return ComputeMode::kQ8;
  return std::nullopt;
}

constexpr std::optional<KvType> ParseKvType(std::string_view text) {
  if (text == "f32") return KvType::kF32;
  if (text == "bf16") return KvType::kBf16;
  return std::nullopt;
}

constexpr size_t ElementBytes(KvType type) { return type == KvType::kF32 ? 4 : 2; }

}  // namespace rondo
