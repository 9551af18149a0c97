// Readers of GGUF weight blocks in AVX2 registers: 32 codes of one row at a time, sub-block scales, dequantised rows.
// Included by the translation units compiled with at least AVX2, FMA and F16C; the scalar definition is block_codes.h.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/simd/avx2.h"
#include "rondo/dense_kernels.h"

namespace rondo {
namespace {

inline __m256i LoadBytes32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

inline float LoadHalfF16c(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return _cvtsh_ss(bits);
}

// Low nibbles of 16 bytes to the lower half, high nibbles to the upper half.
inline __m256i SplitNibbles(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m256i both = _mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes);
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

// 16 where bit i of the 32 bits at p is set, for byte i.
inline __m256i FifthBits(const uint8_t* p) {
  int32_t bits;
  std::memcpy(&bits, p, 4);
  const __m256i spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(bits),
      _mm256_setr_epi64x(0x0000000000000000, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i mask = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, mask), mask);
  return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

inline void StoreTransposed(__m256 (&r)[8], float* out, int stride) {
  simd::Avx2::Transpose(r);
  for (int b = 0; b < 8; ++b) _mm256_store_ps(out + b * stride, r[b]);
}

// Each reader looks at a row in chunks of 256 elements, `chunk` pointing at the first block of one.
//   kBits     codes are unsigned numbers of so many bits, 8: signed bytes
//   kOffset   the weight's code is the unsigned code less kOffset
//   kHalves   a block of 32 has two scales, one for each 16; never with a minimum
//   kMinimum  a block of 32 has a minimum
//   Codes     block b = 0..7 of the chunk as 32 bytes in element order
//   Nibbles   (some) the 16 bytes whose low nibbles are elements 0..15 of block b and high nibbles 16..31
//   Scales    of `blocks` blocks: scale[b], and second[b], the minimum or the second half's scale
//   Scales8   of eight rows: lane i of scale + b * stride and of second + b * stride are row i's; 32-byte aligned
template <int64_t kBytesPerBlock, int kHeader>
struct Block32Scale {
  static constexpr int64_t kBlock = 32;
  static constexpr int64_t kBytes = kBytesPerBlock;
  static constexpr bool kHalves = false;
  static constexpr bool kMinimum = kHeader == 4;

  static void Scales(const uint8_t* chunk, int blocks, float* scale, float* second) {
    for (int b = 0; b < blocks; ++b, chunk += kBytes) {
      scale[b] = LoadHalfF16c(chunk);
      if constexpr (kMinimum) second[b] = LoadHalfF16c(chunk + 2);
    }
  }

  static void Scales8(const uint8_t* const* chunk, int blocks, float* scale, float* second, int stride) {
    // Collected by integer moves first: a vector load right after the stores that it needs would wait for them.
    using Word = std::conditional_t<kMinimum, uint32_t, uint16_t>;
    alignas(32) Word words[8][8];
    for (int i = 0; i < 8; ++i) {
      for (int b = 0; b < blocks; ++b) std::memcpy(&words[b][i], chunk[i] + b * kBytes, sizeof(Word));
    }
    for (int b = 0; b < blocks; ++b, scale += stride, second += stride) {
      if constexpr (kMinimum) {
        const __m256i both = _mm256_load_si256(reinterpret_cast<const __m256i*>(words[b]));
        const __m256i low = _mm256_and_si256(both, _mm256_set1_epi32(0xffff)), high = _mm256_srli_epi32(both, 16);
        _mm256_store_ps(scale, _mm256_cvtph_ps(Narrow(low)));
        _mm256_store_ps(second, _mm256_cvtph_ps(Narrow(high)));
      } else {
        _mm256_store_ps(scale, _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(words[b]))));
      }
    }
  }

 private:
  static __m128i Narrow(__m256i a) {
    return _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  }
};

struct ReadQ4_0 : Block32Scale<18, 2> {
  static constexpr int kBits = 4, kOffset = 8;
  static const uint8_t* Nibbles(const uint8_t* chunk, int b) { return chunk + b * kBytes + 2; }
  static __m256i Codes(const uint8_t* chunk, int b) { return SplitNibbles(Nibbles(chunk, b)); }
};
struct ReadQ4_1 : Block32Scale<20, 4> {
  static constexpr int kBits = 4, kOffset = 0;
  static const uint8_t* Nibbles(const uint8_t* chunk, int b) { return chunk + b * kBytes + 4; }
  static __m256i Codes(const uint8_t* chunk, int b) { return SplitNibbles(Nibbles(chunk, b)); }
};
struct ReadQ5_0 : Block32Scale<22, 2> {
  static constexpr int kBits = 5, kOffset = 16;
  static __m256i Codes(const uint8_t* chunk, int b) {
    const uint8_t* p = chunk + b * kBytes + 2;
    return _mm256_or_si256(SplitNibbles(p + 4), FifthBits(p));
  }
};
struct ReadQ5_1 : Block32Scale<24, 4> {
  static constexpr int kBits = 5, kOffset = 0;
  static __m256i Codes(const uint8_t* chunk, int b) {
    const uint8_t* p = chunk + b * kBytes + 4;
    return _mm256_or_si256(SplitNibbles(p + 4), FifthBits(p));
  }
};
struct ReadQ8_0 : Block32Scale<34, 2> {
  static constexpr int kBits = 8, kOffset = 0;
  static __m256i Codes(const uint8_t* chunk, int b) { return LoadBytes32(chunk + b * kBytes + 2); }
};

// Q4_K and Q5_K: six-bit scales and minima of eight sub-blocks in twelve bytes.
struct BlockKScale {
  static constexpr int64_t kBlock = 256;
  static constexpr bool kHalves = false;
  static constexpr bool kMinimum = true;

  static void Scales(const uint8_t* chunk, int, float* scale, float* second) {
    __m256 s, m;
    Read(chunk, &s, &m);
    _mm256_storeu_ps(scale, s);
    _mm256_storeu_ps(second, m);
  }

  static void Scales8(const uint8_t* const* chunk, int, float* scale, float* second, int stride) {
    __m256 s[8], m[8];
    for (int i = 0; i < 8; ++i) Read(chunk[i], &s[i], &m[i]);
    StoreTransposed(s, scale, stride);
    StoreTransposed(m, second, stride);
  }

 private:
  static void Read(const uint8_t* chunk, __m256* scale, __m256* minimum) {
    uint32_t q[3];
    std::memcpy(q, chunk + 4, 12);
    // Bytes j = 0..7 of the two words are sub-block j's.
    const uint64_t low_scale = q[0] & 0x3f3f3f3fu, low_minimum = q[1] & 0x3f3f3f3fu;
    const uint64_t high_scale = (q[2] & 0x0f0f0f0fu) | ((q[0] >> 6) & 0x03030303u) << 4;
    const uint64_t high_minimum = ((q[2] >> 4) & 0x0f0f0f0fu) | ((q[1] >> 6) & 0x03030303u) << 4;
    const __m256 d = _mm256_set1_ps(LoadHalfF16c(chunk)), dmin = _mm256_set1_ps(LoadHalfF16c(chunk + 2));
    *scale = _mm256_mul_ps(d, Widen(low_scale | high_scale << 32));
    const __m256 product = _mm256_mul_ps(dmin, Widen(low_minimum | high_minimum << 32));
    *minimum = _mm256_xor_ps(product, _mm256_set1_ps(-0.0f));
  }

  static __m256 Widen(uint64_t bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))));
  }
};

inline __m256i NibblesK(const uint8_t* p, int b) {
  const __m256i bytes = LoadBytes32(p + b / 2 * 32);
  return _mm256_and_si256(b % 2 == 0 ? bytes : _mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
}

struct ReadQ4_K : BlockKScale {
  static constexpr int64_t kBytes = 144;
  static constexpr int kBits = 4, kOffset = 0;
  static __m256i Codes(const uint8_t* chunk, int b) { return NibblesK(chunk + 16, b); }
};
struct ReadQ5_K : BlockKScale {
  static constexpr int64_t kBytes = 176;
  static constexpr int kBits = 5, kOffset = 0;
  static __m256i Codes(const uint8_t* chunk, int b) {
    const __m256i mask = _mm256_set1_epi8(static_cast<char>(1 << b));
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(LoadBytes32(chunk + 16), mask), mask);
    return _mm256_or_si256(NibblesK(chunk + 48, b), _mm256_and_si256(set, _mm256_set1_epi8(16)));
  }
};
struct ReadQ6_K {
  static constexpr int64_t kBlock = 256;
  static constexpr int64_t kBytes = 210;
  static constexpr int kBits = 6, kOffset = 32;
  static constexpr bool kHalves = true;
  static constexpr bool kMinimum = false;

  static void Scales(const uint8_t* chunk, int, float* scale, float* second) {
    __m256 even, odd;
    Read(chunk, &even, &odd);
    _mm256_storeu_ps(scale, even);
    _mm256_storeu_ps(second, odd);
  }
  static void Scales8(const uint8_t* const* chunk, int, float* scale, float* second, int stride) {
    __m256 even[8], odd[8];
    for (int i = 0; i < 8; ++i) Read(chunk[i], &even[i], &odd[i]);
    StoreTransposed(even, scale, stride);
    StoreTransposed(odd, second, stride);
  }
  static __m256i Codes(const uint8_t* chunk, int b) {
    const int half = b / 4, quarter = b % 4;
    const __m256i low = LoadBytes32(chunk + half * 64 + quarter % 2 * 32);
    const __m256i nibble = _mm256_and_si256(quarter < 2 ? low : _mm256_srli_epi16(low, 4), _mm256_set1_epi8(15));
    const __m256i high = _mm256_srl_epi16(LoadBytes32(chunk + 128 + half * 32), _mm_cvtsi32_si128(2 * quarter));
    return _mm256_or_si256(nibble, _mm256_slli_epi16(_mm256_and_si256(high, _mm256_set1_epi8(3)), 4));
  }

 private:
  static void Read(const uint8_t* chunk, __m256* even, __m256* odd) {
    const __m256 d = _mm256_set1_ps(LoadHalfF16c(chunk + 208));
    const __m128i q = _mm_loadu_si128(reinterpret_cast<const __m128i*>(chunk + 192));
    *even =
        _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(_mm256_cvtepi16_epi32(q), 24), 24)));
    *odd = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_cvtepi16_epi32(q), 8)));
  }
};

// Calls visit.template operator()<Reader>() for a quantised type.
template <typename Visitor>
void VisitReader(WeightType type, const Visitor& visit) {
  switch (type) {
    case WeightType::kQ4_0:
      return visit.template operator()<ReadQ4_0>();
    case WeightType::kQ4_1:
      return visit.template operator()<ReadQ4_1>();
    case WeightType::kQ5_0:
      return visit.template operator()<ReadQ5_0>();
    case WeightType::kQ5_1:
      return visit.template operator()<ReadQ5_1>();
    case WeightType::kQ8_0:
      return visit.template operator()<ReadQ8_0>();
    case WeightType::kQ4_K:
      return visit.template operator()<ReadQ4_K>();
    case WeightType::kQ5_K:
      return visit.template operator()<ReadQ5_K>();
    case WeightType::kQ6_K:
      return visit.template operator()<ReadQ6_K>();
    default:
      return;
  }
}

// Elements [0, n) of blocks starting at p; n is a multiple of 32 and a whole number of blocks.
template <typename R>
void DequantiseBlocks(const uint8_t* p, int64_t n, float* out) {
  for (; n > 0; n -= 256, p += 256 / R::kBlock * R::kBytes, out += 256) {
    const int blocks = static_cast<int>(n < 256 ? n / 32 : 8);
    float scale[8], second[8];
    R::Scales(p, blocks, scale, second);
    for (int b = 0; b < blocks; ++b) {
      alignas(32) int8_t codes[32];
      _mm256_store_si256(reinterpret_cast<__m256i*>(codes),
                         _mm256_sub_epi8(R::Codes(p, b), _mm256_set1_epi8(R::kOffset)));
      for (int v = 0; v < 4; ++v) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + 8 * v));
        const __m256 code = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
        __m256 value = _mm256_mul_ps(_mm256_set1_ps(R::kHalves && v >= 2 ? second[b] : scale[b]), code);
        if constexpr (R::kMinimum) value = _mm256_add_ps(value, _mm256_set1_ps(second[b]));
        _mm256_storeu_ps(out + 32 * b + 8 * v, value);
      }
    }
  }
}

// Elements [begin, end) of a row of any type; for quantised ones both are whole blocks.
inline void DequantiseRange(WeightType type, const std::byte* row, int64_t begin, int64_t end, float* out) {
  const uint8_t* p = reinterpret_cast<const uint8_t*>(row);
  const int64_t n = end - begin;
  if (type == WeightType::kF32) {
    std::memcpy(out, p + begin * 4, n * 4);
  } else if (type == WeightType::kF16 || type == WeightType::kBF16) {
    p += begin * 2;
    int64_t i = 0;
    if (type == WeightType::kF16) {
      for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * 2))));
      }
      for (; i < n; ++i) out[i] = LoadHalfF16c(p + i * 2);
    } else {
      for (; i + 8 <= n; i += 8) {
        const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * 2));
        const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), wide);
      }
      for (; i < n; ++i) {
        uint16_t bits;
        std::memcpy(&bits, p + i * 2, 2);
        out[i] = std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
      }
    }
  } else {
    VisitReader(type, [&]<typename R>() { DequantiseBlocks<R>(p + begin / R::kBlock * R::kBytes, n, out); });
  }
}

inline void DequantiseWholeRow(WeightType type, const std::byte* row, int64_t cols, float* out) {
  DequantiseRange(type, row, 0, cols, out);
}

}  // namespace
}  // namespace rondo
