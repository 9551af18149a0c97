// The arithmetic a group runs in: compute mode and KV type; part of every fingerprint, used by all parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rondo {

// kF32: weights dequantised, float32 arithmetic: the accuracy reference.
// kQ8: activations in int8 blocks of 32 against quantised weights, integer dot products; the default for them.
// kBf16: weights and activations in bf16, float32 sums; that of GPUs, and theirs alone.
enum class ComputeMode : uint8_t { kF32, kQ8, kBf16 };

// How keys and values are kept and sent round the ring.
enum class KvType : uint8_t { kF32, kBf16 };

// What a row of a sequence is: a token that was given, or one that was drawn. Kernels may compute the two differently,
// down to the bits; what a row is follows from the job alone, so it stays the same on any number of workers. How many
// rows come along must not decide.
enum class RowKind : uint8_t { kGiven, kDrawn };

constexpr std::string_view Name(ComputeMode mode) {
  switch (mode) {
    case ComputeMode::kF32:
      return "f32";
    case ComputeMode::kQ8:
      return "q8";
    case ComputeMode::kBf16:
      return "bf16";
  }
  return "";
}
constexpr std::string_view Name(KvType type) { return type == KvType::kF32 ? "f32" : "bf16"; }

constexpr std::optional<ComputeMode> ParseComputeMode(std::string_view text) {
  if (text == "f32") return ComputeMode::kF32;
  if (text == "q8") return ComputeMode::kQ8;
  if (text == "bf16") return ComputeMode::kBf16;
  return std::nullopt;
}

constexpr std::optional<KvType> ParseKvType(std::string_view text) {
  if (text == "f32") return KvType::kF32;
  if (text == "bf16") return KvType::kBf16;
  return std::nullopt;
}

constexpr size_t ElementBytes(KvType type) { return type == KvType::kF32 ? 4 : 2; }

}  // namespace rondo
