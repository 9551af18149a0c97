// The register tile of the q8 matmul on AVX2: 16 weight rows by 4 tokens, block after block, in inline assembly. g++ 12
// orders the same in intrinsics badly, and moves registers to memory and back around smaller pieces of assembly. Used
// by matmul_q8_avx2.h.
//
// A panel's block holds four consecutive codes of 16 rows in 64 bytes, eight times, then 16 scales, then 16 minima (or
// the scales of the second half). A group's block (token_groups.h) holds four consecutive codes of each token, eight
// times, then what the tokens add. sums[token][16] are read and written at every block: all 16 registers are taken.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/dense/token_groups.h"

namespace rondo::simd {
namespace {

// ymm0..3 and 4..7: sums of rows 0..7 and 8..15 for tokens 0..3; 8, 9: weights, then scales; 10: a token's broadcast;
// 11, 12: products; 13: ones; 14, 15: absolute weights or minima.
#define RONDO_Y(i) "%%ymm" #i
#define RONDO_TOKENS(op, a) op(a, 0, 0, 4) op(a, 1, 1, 5) op(a, 2, 2, 6) op(a, 3, 3, 7)
#define RONDO_LINE(text) text "\n\t"
#define RONDO_LOAD(at, low, high) \
  RONDO_LINE("vmovaps " #at "(%[w])," RONDO_Y(low)) RONDO_LINE("vmovaps " #at "+32(%[w])," RONDO_Y(high))
#define RONDO_TOKEN(at, token) RONDO_LINE("vpbroadcastd " #at "+4*" #token "(%[x])," RONDO_Y(10))

// One token of one step. FIRST starts the i16 sums, NEXT adds to them; they wrap.
#define RONDO_FIRST(step, token, low, high)                             \
  RONDO_TOKEN(16 * step, token)                                         \
  RONDO_LINE("vpmaddubsw " RONDO_Y(10) "," RONDO_Y(8) "," RONDO_Y(low)) \
  RONDO_LINE("vpmaddubsw " RONDO_Y(10) "," RONDO_Y(9) "," RONDO_Y(high))
#define RONDO_NEXT(step, token, low, high)                             \
  RONDO_TOKEN(16 * step, token)                                        \
  RONDO_LINE("vpmaddubsw " RONDO_Y(10) "," RONDO_Y(8) "," RONDO_Y(11)) \
  RONDO_LINE("vpmaddubsw " RONDO_Y(10) "," RONDO_Y(9) "," RONDO_Y(12)) \
  RONDO_LINE("vpaddw " RONDO_Y(11) "," RONDO_Y(low) "," RONDO_Y(low))  \
  RONDO_LINE("vpaddw " RONDO_Y(12) "," RONDO_Y(high) "," RONDO_Y(high))
#define RONDO_STEP(step, op) RONDO_LOAD(64 * step, 8, 9) RONDO_TOKENS(op, step)
#define RONDO_HALF0 \
  RONDO_STEP(0, RONDO_FIRST) RONDO_STEP(1, RONDO_NEXT) RONDO_STEP(2, RONDO_NEXT) RONDO_STEP(3, RONDO_NEXT)
#define RONDO_HALF1 RONDO_STEP(5, RONDO_NEXT) RONDO_STEP(6, RONDO_NEXT) RONDO_STEP(7, RONDO_NEXT)

// Signed bytes: |w| times x with w's sign, widened at every step: at most 2 * 128 * 127 = 32,512 in i16.
#define RONDO_PRODUCT_SIGNED                                            \
  RONDO_LINE("vpsignb " RONDO_Y(8) "," RONDO_Y(10) "," RONDO_Y(11))     \
  RONDO_LINE("vpsignb " RONDO_Y(9) "," RONDO_Y(10) "," RONDO_Y(12))     \
  RONDO_LINE("vpmaddubsw " RONDO_Y(11) "," RONDO_Y(14) "," RONDO_Y(11)) \
  RONDO_LINE("vpmaddubsw " RONDO_Y(12) "," RONDO_Y(15) "," RONDO_Y(12))
#define RONDO_FIRST_SIGNED(step, token, low, high)                                          \
  RONDO_TOKEN(16 * step, token)                                                             \
  RONDO_PRODUCT_SIGNED RONDO_LINE("vpmaddwd " RONDO_Y(13) "," RONDO_Y(11) "," RONDO_Y(low)) \
      RONDO_LINE("vpmaddwd " RONDO_Y(13) "," RONDO_Y(12) "," RONDO_Y(high))
#define RONDO_NEXT_SIGNED(step, token, low, high)                                          \
  RONDO_TOKEN(16 * step, token)                                                            \
  RONDO_PRODUCT_SIGNED RONDO_LINE("vpmaddwd " RONDO_Y(13) "," RONDO_Y(11) "," RONDO_Y(11)) \
      RONDO_LINE("vpmaddwd " RONDO_Y(13) "," RONDO_Y(12) "," RONDO_Y(12))                  \
          RONDO_LINE("vpaddd " RONDO_Y(11) "," RONDO_Y(low) "," RONDO_Y(low))              \
              RONDO_LINE("vpaddd " RONDO_Y(12) "," RONDO_Y(high) "," RONDO_Y(high))
#define RONDO_STEP_SIGNED(step, op)                    \
  RONDO_LOAD(64 * step, 8, 9)                          \
  RONDO_LINE("vpabsb 64*" #step "(%[w])," RONDO_Y(14)) \
  RONDO_LINE("vpabsb 64*" #step "+32(%[w])," RONDO_Y(15)) RONDO_TOKENS(op, step)

// The i16 sums less the offset's share, which brings them into range again.
#define RONDO_CENTRE(at, token, low, high)                            \
  RONDO_TOKEN(at, token)                                              \
  RONDO_LINE("vpsubw " RONDO_Y(10) "," RONDO_Y(low) "," RONDO_Y(low)) \
  RONDO_LINE("vpsubw " RONDO_Y(10) "," RONDO_Y(high) "," RONDO_Y(high))
#define RONDO_WIDEN(unused, token, low, high)                           \
  RONDO_LINE("vpmaddwd " RONDO_Y(13) "," RONDO_Y(low) "," RONDO_Y(low)) \
  RONDO_LINE("vpmaddwd " RONDO_Y(13) "," RONDO_Y(high) "," RONDO_Y(high))
// The offset's share given back after widening.
#define RONDO_RESTORE(at, token, low, high)                           \
  RONDO_TOKEN(at, token)                                              \
  RONDO_LINE("vpmaddwd " RONDO_Y(13) "," RONDO_Y(10) "," RONDO_Y(10)) \
  RONDO_LINE("vpaddd " RONDO_Y(10) "," RONDO_Y(low) "," RONDO_Y(low)) \
  RONDO_LINE("vpaddd " RONDO_Y(10) "," RONDO_Y(high) "," RONDO_Y(high))
// fma(scale * s, dot, sum), then fma(minimum, scaled_sum, sum).
#define RONDO_SCALE(unused, token, low, high)                                 \
  RONDO_TOKEN(128, token)                                                     \
  RONDO_LINE("vcvtdq2ps " RONDO_Y(low) "," RONDO_Y(low))                      \
  RONDO_LINE("vcvtdq2ps " RONDO_Y(high) "," RONDO_Y(high))                    \
  RONDO_LINE("vmulps " RONDO_Y(10) "," RONDO_Y(8) "," RONDO_Y(11))            \
  RONDO_LINE("vmulps " RONDO_Y(10) "," RONDO_Y(9) "," RONDO_Y(12))            \
  RONDO_LINE("vfmadd213ps 64*" #token "(%[f])," RONDO_Y(11) "," RONDO_Y(low)) \
  RONDO_LINE("vfmadd213ps 64*" #token "+32(%[f])," RONDO_Y(12) "," RONDO_Y(high))
#define RONDO_STORE(unused, token, low, high)                \
  RONDO_LINE("vmovaps " RONDO_Y(low) ",64*" #token "(%[f])") \
  RONDO_LINE("vmovaps " RONDO_Y(high) ",64*" #token "+32(%[f])")
#define RONDO_SCALE_STORE(unused, token, low, high) \
  RONDO_SCALE(unused, token, low, high) RONDO_STORE(unused, token, low, high)
#define RONDO_SCALE_MINIMUM_STORE(unused, token, low, high)                \
  RONDO_SCALE(unused, token, low, high)                                    \
  RONDO_TOKEN(144, token)                                                  \
  RONDO_LINE("vfmadd231ps " RONDO_Y(10) "," RONDO_Y(14) "," RONDO_Y(low))  \
  RONDO_LINE("vfmadd231ps " RONDO_Y(10) "," RONDO_Y(15) "," RONDO_Y(high)) \
  RONDO_STORE(unused, token, low, high)
#define RONDO_END RONDO_LOAD(512, 8, 9) RONDO_TOKENS(RONDO_SCALE_STORE, 0)
#define RONDO_END_MINIMUM RONDO_LOAD(512, 8, 9) RONDO_LOAD(576, 14, 15) RONDO_TOKENS(RONDO_SCALE_MINIMUM_STORE, 0)
#define RONDO_BLOCK RONDO_HALF0 RONDO_STEP(4, RONDO_NEXT) RONDO_HALF1

// A loop over the blocks around `body`.
#define RONDO_TILE(body)                                                                                           \
  asm volatile("vpcmpeqw %%ymm13,%%ymm13,%%ymm13\n\tvpsrlw $15,%%ymm13,%%ymm13\n\t.p2align 5\n1:\n\t" body         \
               "add $640,%[w]\n\tadd $224,%[x]\n\tdec %[n]\n\tjnz 1b"                                              \
               : [w] "+r"(panel), [x] "+r"(group), [n] "+r"(blocks)                                                \
               : [f] "r"(sums)                                                                                     \
               : "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10", "ymm11", \
                 "ymm12", "ymm13", "ymm14", "ymm15", "cc", "memory")

// `blocks` (at least one) blocks of a panel of unsigned kBits-bit codes less kOffset (8 bits: signed) and of a group,
// into sums [4 tokens][16 rows], 32-byte aligned as the panel. An i16 lane gets 16 products a block: at most 30,480
// with codes up to 15. Larger codes wrap, which the subtraction of the offset's share undoes: 16 * 127 * 16 and, for
// half a block of Q6_K, 8 * 127 * 32 are 32,512.
template <int kBits, int kOffset, bool kHalves, bool kMinimum>
inline void MultiplyTile(const uint8_t* panel, const uint8_t* group, int64_t blocks, float* sums) {
  static_assert(kPanelBlockBytes == 640 && kGroupBlockBytes == 224);
  if constexpr (kHalves) {
    static_assert(kBits == 6 && kOffset == 32 && !kMinimum);
    RONDO_TILE(RONDO_HALF0 RONDO_TOKENS(RONDO_CENTRE, 192) RONDO_TOKENS(RONDO_WIDEN, 0)
                   RONDO_END RONDO_STEP(4, RONDO_FIRST) RONDO_HALF1 RONDO_TOKENS(RONDO_CENTRE, 208)
                       RONDO_TOKENS(RONDO_WIDEN, 0) RONDO_LOAD(576, 8, 9) RONDO_TOKENS(RONDO_SCALE_STORE, 0));
  } else if constexpr (kBits == 8) {
    static_assert(kOffset == 0 && !kMinimum);
    RONDO_TILE(RONDO_STEP_SIGNED(0, RONDO_FIRST_SIGNED) RONDO_STEP_SIGNED(1, RONDO_NEXT_SIGNED)
                   RONDO_STEP_SIGNED(2, RONDO_NEXT_SIGNED) RONDO_STEP_SIGNED(3, RONDO_NEXT_SIGNED)
                       RONDO_STEP_SIGNED(4, RONDO_NEXT_SIGNED) RONDO_STEP_SIGNED(5, RONDO_NEXT_SIGNED)
                           RONDO_STEP_SIGNED(6, RONDO_NEXT_SIGNED) RONDO_STEP_SIGNED(7, RONDO_NEXT_SIGNED) RONDO_END);
  } else if constexpr (kBits == 5 && kMinimum) {
    static_assert(kOffset == 0);
    RONDO_TILE(RONDO_BLOCK RONDO_TOKENS(RONDO_CENTRE, 176) RONDO_TOKENS(RONDO_WIDEN, 0) RONDO_TOKENS(RONDO_RESTORE, 176)
                   RONDO_END_MINIMUM);
  } else if constexpr (kBits == 5) {
    static_assert(kOffset == 16);
    RONDO_TILE(RONDO_BLOCK RONDO_TOKENS(RONDO_CENTRE, 176) RONDO_TOKENS(RONDO_WIDEN, 0) RONDO_END);
  } else if constexpr (kMinimum) {
    static_assert(kBits == 4 && kOffset == 0);
    RONDO_TILE(RONDO_BLOCK RONDO_TOKENS(RONDO_WIDEN, 0) RONDO_END_MINIMUM);
  } else {
    static_assert(kBits == 4 && kOffset == 8);
    RONDO_TILE(RONDO_BLOCK RONDO_TOKENS(RONDO_CENTRE, 160) RONDO_TOKENS(RONDO_WIDEN, 0) RONDO_END);
  }
}

#undef RONDO_Y
#undef RONDO_TOKENS
#undef RONDO_LINE
#undef RONDO_LOAD
#undef RONDO_TOKEN
#undef RONDO_FIRST
#undef RONDO_NEXT
#undef RONDO_STEP
#undef RONDO_HALF0
#undef RONDO_HALF1
#undef RONDO_PRODUCT_SIGNED
#undef RONDO_FIRST_SIGNED
#undef RONDO_NEXT_SIGNED
#undef RONDO_STEP_SIGNED
#undef RONDO_CENTRE
#undef RONDO_WIDEN
#undef RONDO_RESTORE
#undef RONDO_SCALE
#undef RONDO_STORE
#undef RONDO_SCALE_STORE
#undef RONDO_SCALE_MINIMUM_STORE
#undef RONDO_END
#undef RONDO_END_MINIMUM
#undef RONDO_BLOCK
#undef RONDO_TILE

}  // namespace
}  // namespace rondo::simd
