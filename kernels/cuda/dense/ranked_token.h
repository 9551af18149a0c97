// Reads the answers of argmax and top-k on the host: a rank is a token id and its logit. Used by what samples.
#pragma once

#include <bit>
#include <cstdint>

namespace rondo::cuda {

struct RankedToken {
  int32_t id = -1;  // -1: there are fewer tokens than were asked for
  float logit = 0;  // NaN also where it was +infinity
};

constexpr RankedToken TokenOfRank(uint64_t rank) {
  if (rank == 0) return {};
  const auto rising = static_cast<uint32_t>(rank >> 32);
  // See RankOf in ranking.cuh.
  const uint32_t bits = rising >> 31 != 0 ? rising & 0x7fffffffu : ~rising;
  return {static_cast<int32_t>(~static_cast<uint32_t>(rank)), std::bit_cast<float>(bits)};
}

}  // namespace rondo::cuda
