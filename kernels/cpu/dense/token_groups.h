// Activation codes in groups of four tokens, laid out once by PrepareRows as the AVX2 q8 tile reads them; and the sizes
// of the blocks that the tile walks over.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "rondo/dense_kernels.h"

namespace rondo {
namespace {

inline constexpr int64_t kGroupTokens = 4;

// A block of 32 inner elements of a group: four consecutive codes of each token, eight times (128 bytes); then four
// values a token, 16 bytes each array:
//   scale, scaled_sum   float
//   8, 16 times the code sums of the block: two i16, of codes 0, 1 and of codes 2, 3 of every four: what an offset of 8
//                       or 16 adds to the two i16 lanes of a row in the tile
//   32 times those of the first and of the second half, modulo 2^16
inline constexpr int64_t kGroupBlockBytes = 128 + 6 * 16;

// A block of sixteen weight rows in a panel: 512 bytes of codes, sixteen scales, sixteen minima or second scales.
inline constexpr int64_t kPanelBlockBytes = 512 + 2 * 64;

inline size_t GroupBytes(int64_t cols) { return cols / 32 * kGroupBlockBytes; }

// Groups [begin, end) of `rows` into out, which is the place of group 0; tokens past the last are zero.
[[maybe_unused]] void PackTokenGroups(const ActivationRows& rows, int64_t begin, int64_t end, std::byte* out) {
  const int64_t blocks = rows.cols / 32;
  const __m256i ones = _mm256_set1_epi8(1);
  for (int64_t group = begin; group < end; ++group) {
    const int64_t count = std::min(kGroupTokens, rows.count - group * kGroupTokens);
    for (int64_t block = 0; block < blocks; ++block) {
      uint8_t* p = reinterpret_cast<uint8_t*>(out) + (group * blocks + block) * kGroupBlockBytes;
      float scale[4] = {}, scaled_sum[4] = {};
      int32_t first[4] = {}, second[4] = {};  // two i16 each
      __m128 low[4], high[4];
      for (int64_t t = 0; t < kGroupTokens; ++t) {
        low[t] = high[t] = _mm_setzero_ps();
        if (t >= count) continue;
        const int64_t i = (group * kGroupTokens + t) * blocks + block;
        const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows.codes.data() + i * 32));
        low[t] = _mm_castsi128_ps(_mm256_castsi256_si128(codes));
        high[t] = _mm_castsi128_ps(_mm256_extracti128_si256(codes, 1));
        scale[t] = rows.scale[i];
        scaled_sum[t] = rows.scaled_sum[i];
        __m256i pairs = _mm256_maddubs_epi16(ones, codes);
        pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
        pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0xb1));
        first[t] = _mm256_extract_epi32(pairs, 0);
        second[t] = _mm256_extract_epi32(pairs, 4);
      }
      _MM_TRANSPOSE4_PS(low[0], low[1], low[2], low[3]);
      _MM_TRANSPOSE4_PS(high[0], high[1], high[2], high[3]);
      for (int q = 0; q < 4; ++q) {
        _mm_storeu_ps(reinterpret_cast<float*>(p + q * 16), low[q]);
        _mm_storeu_ps(reinterpret_cast<float*>(p + 64 + q * 16), high[q]);
      }
      std::memcpy(p + 128, scale, 16);
      std::memcpy(p + 144, scaled_sum, 16);
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first));
      const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(second));
      const __m128i all = _mm_add_epi16(a, b);
      __m128i* sums = reinterpret_cast<__m128i*>(p + 160);
      _mm_storeu_si128(sums, _mm_slli_epi16(all, 3));
      _mm_storeu_si128(sums + 1, _mm_slli_epi16(all, 4));
      _mm_storeu_si128(sums + 2, _mm_slli_epi16(a, 5));
      _mm_storeu_si128(sums + 3, _mm_slli_epi16(b, 5));
    }
  }
}

}  // namespace
}  // namespace rondo
