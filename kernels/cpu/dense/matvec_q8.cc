// The q8 product for a few activation rows (decode): eight weight rows at a time straight from the mapped blocks, with
// exact horizontal integer sums into lanes. Compiled once, for AVX2: wider machines use it too, since memory is the
// limit.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/dense/matmul_q8.h"
#include "kernels/cpu/dense/panel_q8.h"

namespace rondo {
namespace {

inline constexpr int kMatVecTokens = kFewRows;
// What a core reads in the time of an access to memory (some 100 ns), several times over; half of the smallest L1.
inline constexpr int64_t kPrefetchBytes = 8 << 10;

// Products of 32 codes with 32 activations as i16 pairs (at most 16,002) or, for signed bytes, |w| times x with w's
// sign (at most 32,512).
template <typename R>
[[gnu::always_inline]] inline __m256i PairProducts(__m256i w, __m256i x) {
  if constexpr (R::kBits == 8) {
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  } else {
    return _mm256_maddubs_epi16(w, x);
  }
}

// Lane i of the results: the sum of p[i]'s lower (first 16 codes) and upper halves.
template <typename R>
[[gnu::always_inline]] inline void FoldRows(const __m256i (&p)[8], __m256i* lower, __m256i* upper) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i a, b;
  if constexpr (R::kBits <= 5) {
    // Four pair sums of at most 7,874 fit i16.
    a = _mm256_hadd_epi16(_mm256_hadd_epi16(p[0], p[1]), _mm256_hadd_epi16(p[2], p[3]));
    b = _mm256_hadd_epi16(_mm256_hadd_epi16(p[4], p[5]), _mm256_hadd_epi16(p[6], p[7]));
    a = _mm256_madd_epi16(a, ones);
    b = _mm256_madd_epi16(b, ones);
  } else {
    __m256i q[8];
    for (int i = 0; i < 8; ++i) q[i] = _mm256_madd_epi16(p[i], ones);
    a = _mm256_hadd_epi32(_mm256_hadd_epi32(q[0], q[1]), _mm256_hadd_epi32(q[2], q[3]));
    b = _mm256_hadd_epi32(_mm256_hadd_epi32(q[4], q[5]), _mm256_hadd_epi32(q[6], q[7]));
  }
  *lower = _mm256_permute2x128_si256(a, b, 0x20);
  *upper = _mm256_permute2x128_si256(a, b, 0x31);
}

// One block of eight rows, read once and multiplied with each token's 32 codes. Dot: lane i of part[0] is row i's sum,
// or, where a block has two scales, part[0] and part[1] are the sums of its halves.
template <typename R>
struct RowsBlock {
  __m256i codes[8];

  RowsBlock(const uint8_t* const* source, int b) {
    for (int i = 0; i < 8; ++i) codes[i] = R::Codes(source[i], b);
  }
  void Dot(const int8_t* x_codes, __m256i (&part)[2]) const {
    const __m256i x = LoadBytes32(x_codes);
    __m256i p[8];
    for (int i = 0; i < 8; ++i) p[i] = PairProducts<R>(codes[i], x);
    FoldRows<R>(p, &part[0], &part[1]);
    if constexpr (!R::kHalves) part[0] = _mm256_add_epi32(part[0], part[1]);
  }
};

// Four-bit blocks of 32: rows i and i + 4 share a register, so that low and high nibbles add up before the fold, which
// then needs no exchange of halves.
template <typename R>
requires requires(const uint8_t* p) { R::Nibbles(p, 0); }
struct RowsBlock<R> {
  __m256i low[4], high[4];

  RowsBlock(const uint8_t* const* source, int b) {
    const __m256i mask = _mm256_set1_epi8(15);
    for (int i = 0; i < 4; ++i) {
      const __m256i bytes = _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(R::Nibbles(source[i + 4], b)),
                                                reinterpret_cast<const __m128i*>(R::Nibbles(source[i], b)));
      low[i] = _mm256_and_si256(bytes, mask);
      high[i] = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask);
    }
  }
  void Dot(const int8_t* x_codes, __m256i (&part)[2]) const {
    const __m128i* x = reinterpret_cast<const __m128i*>(x_codes);
    const __m256i x_low = _mm256_broadcastsi128_si256(_mm_loadu_si128(x));
    const __m256i x_high = _mm256_broadcastsi128_si256(_mm_loadu_si128(x + 1));
    __m256i p[4];
    for (int i = 0; i < 4; ++i) {
      p[i] = _mm256_add_epi16(_mm256_maddubs_epi16(low[i], x_low), _mm256_maddubs_epi16(high[i], x_high));
    }
    // Sixteen products of at most 15 * 127 a lane at the end: 30,480.
    const __m256i sums = _mm256_hadd_epi16(_mm256_hadd_epi16(p[0], p[1]), _mm256_hadd_epi16(p[2], p[3]));
    part[0] = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
  }
};

// Tokens [0, count), count at most kTokens; the last one stands in for those missing.
template <typename R, int kTokens>
void MatVecRows(const WeightView& weight, int64_t row, int valid, int64_t prefetch, const TokensQ8& tokens, int count,
                float* const* out) {
  constexpr int kScales = R::kHalves ? 2 : 1;
  const uint8_t* source[8];
  for (int i = 0; i < 8; ++i) {
    source[i] = reinterpret_cast<const uint8_t*>(weight.data) + (row + std::min(i, valid - 1)) * weight.row_bytes;
  }
  // Eight short rows are no stream that the hardware knows. The rows that follow are fetched in the order of their
  // addresses, as many lines as this chunk uses up.
  const char* ahead = reinterpret_cast<const char*>(weight.data) + row * weight.row_bytes + prefetch;
  __m256 f[kTokens];
  for (int t = 0; t < kTokens; ++t) f[t] = _mm256_setzero_ps();
  const int64_t all_blocks = weight.cols / 32;
  int64_t start[kTokens];  // of the token's blocks
  for (int t = 0; t < kTokens; ++t) start[t] = std::min(t, count - 1) * all_blocks;
  for (int64_t first = 0; first < all_blocks; first += 8) {
    const int blocks = static_cast<int>(std::min<int64_t>(8, all_blocks - first));
    if (prefetch != 0) {
      const int64_t used = blocks * 32 / R::kBlock * R::kBytes * 8;
      for (int64_t i = 0; i < used; i += 64) _mm_prefetch(ahead + i, _MM_HINT_T0);
      ahead += used;
    }
    alignas(32) float scale[8 * 16];  // 16 a block: eight scales, then eight minima or second scales
    R::Scales8(source, blocks, scale, scale + 8, 16);
    for (int b = 0; b < blocks; ++b) {
      const int64_t block = first + b;
      const RowsBlock<R> rows(source, b);
      for (int t = 0; t < kTokens; ++t) {
        __m256i part[2];
        const int64_t at = start[t] + block;
        rows.Dot(tokens.codes + at * 32, part);
        const __m256 s = _mm256_broadcast_ss(tokens.scale + at);
        const int16_t* sums = tokens.code_sums + 2 * at;
        for (int h = 0; h < kScales; ++h) {
          if constexpr (R::kOffset != 0) {
            const int32_t sum = R::kHalves ? sums[h] : sums[0] + sums[1];
            part[h] = _mm256_sub_epi32(part[h], _mm256_set1_epi32(R::kOffset * sum));
          }
          const __m256 d = _mm256_load_ps(scale + b * 16 + h * 8);
          f[t] = _mm256_fmadd_ps(_mm256_mul_ps(d, s), _mm256_cvtepi32_ps(part[h]), f[t]);
        }
        if constexpr (R::kMinimum) {
          const __m256 ss = _mm256_broadcast_ss(tokens.scaled_sum + at);
          f[t] = _mm256_fmadd_ps(_mm256_load_ps(scale + b * 16 + 8), ss, f[t]);
        }
      }
    }
    for (int i = 0; i < 8; ++i) source[i] += 256 / R::kBlock * R::kBytes;
  }
  for (int t = 0; t < count; ++t) {
    if (valid == 8) {
      _mm256_storeu_ps(out[t], f[t]);
    } else {
      simd::Avx2::StorePartial(out[t], f[t], valid);
    }
  }
}

template <typename R>
void MatVecReader(const MatMulTile& tile) {
  const int count = static_cast<int>(tile.token_end - tile.token_begin);
  const TokensQ8 tokens = TokensAt(*tile.rows, tile.token_begin, 0);
  // Rows between use and prefetch: eight, or as many as make kPrefetchBytes.
  const int64_t eight = 8 * static_cast<int64_t>(tile.weight->row_bytes);
  const int64_t lead = (kPrefetchBytes + eight - 1) / eight * 8;
  for (int64_t row = tile.row_begin; row < tile.row_end; row += 8) {
    const int valid = static_cast<int>(std::min<int64_t>(8, tile.row_end - row));
    const int64_t distance = lead * static_cast<int64_t>(tile.weight->row_bytes);
    const int64_t prefetch = row + lead < tile.row_end ? distance : 0;
    float* out[kMatVecTokens];
    for (int t = 0; t < count; ++t) out[t] = tile.y + (tile.token_begin + t) * tile.weight->rows + row;
    if (count == 1) {
      MatVecRows<R, 1>(*tile.weight, row, valid, prefetch, tokens, count, out);
    } else if (count == 2) {
      MatVecRows<R, 2>(*tile.weight, row, valid, prefetch, tokens, count, out);
    } else {
      MatVecRows<R, 4>(*tile.weight, row, valid, prefetch, tokens, count, out);
    }
  }
}

}  // namespace

void MatVecQ8(const MatMulTile& tile) {
  VisitReader(tile.weight->type, [&]<typename R>() { MatVecReader<R>(tile); });
}

}  // namespace rondo
