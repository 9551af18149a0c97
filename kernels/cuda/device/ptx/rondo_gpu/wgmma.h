// wgmma.mma_async of m64nNk16 with fp32 accumulators: the instructions' long lists of registers, made by the
// preprocessor. Used by hopper_side.h.
//
// A thread's N / 2 accumulators are d[N / 8][4]. The asm numbers its operands: accumulators from 0, then what follows.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/ptx/rondo_gpu/side.h"

// The names of 32, 64 and 128 accumulators, "%0, %1, ...".
#define RONDO_NAMES_8(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7"
#define RONDO_NAMES_10(t) RONDO_NAMES_8(t) ", %" #t "8, %" #t "9"
#define RONDO_NAMES_0_TO_9 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9"
#define RONDO_NAMES_0_TO_29 RONDO_NAMES_0_TO_9 ", " RONDO_NAMES_10(1) ", " RONDO_NAMES_10(2)
#define RONDO_NAMES_0_TO_59 RONDO_NAMES_0_TO_29 ", " RONDO_NAMES_10(3) ", " RONDO_NAMES_10(4) ", " RONDO_NAMES_10(5)
#define RONDO_NAMES_0_TO_99 \
  RONDO_NAMES_0_TO_59 ", " RONDO_NAMES_10(6) ", " RONDO_NAMES_10(7) ", " RONDO_NAMES_10(8) ", " RONDO_NAMES_10(9)
#define RONDO_NAMES_32 RONDO_NAMES_0_TO_29 ", %30, %31"
#define RONDO_NAMES_64 RONDO_NAMES_0_TO_59 ", %60, %61, %62, %63"
#define RONDO_NAMES_128 RONDO_NAMES_0_TO_99 ", " RONDO_NAMES_10(10) ", " RONDO_NAMES_10(11) ", " RONDO_NAMES_8(12)

// The accumulators themselves, tile by tile.
#define RONDO_TILE(d, n) "+f"((d)[n][0]), "+f"((d)[n][1]), "+f"((d)[n][2]), "+f"((d)[n][3])
#define RONDO_TILES_4(d, n) RONDO_TILE(d, n), RONDO_TILE(d, n + 1), RONDO_TILE(d, n + 2), RONDO_TILE(d, n + 3)
#define RONDO_TILES_8(d, n) RONDO_TILES_4(d, n), RONDO_TILES_4(d, n + 4)
#define RONDO_TILES_16(d, n) RONDO_TILES_8(d, n), RONDO_TILES_8(d, n + 8)
#define RONDO_SUMS_64(d) RONDO_TILES_8(d, 0)
#define RONDO_SUMS_128(d) RONDO_TILES_16(d, 0)
#define RONDO_SUMS_256(d) RONDO_TILES_16(d, 0), RONDO_TILES_16(d, 16)

// %c .. name what follows the accumulators: for products from shared memory a, b, accumulate; from registers a[0..3],
// b. The last immediates: 1 and 1 do not negate a and b, then which operands are transposed (MN-major).
#define RONDO_WGMMA_SHARED(n, type, names, a, b, accumulate)                                      \
  "{ .reg .pred p; setp.ne.b32 p, %" #accumulate                                                  \
  ", 0;\n"                                                                                        \
  "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #type "." #type " {" names "}, %" #a ", %" #b \
  ", p, 1, 1, 0, 0; }\n"
#define RONDO_WGMMA_REGISTERS(n, type, names, a0, a1, a2, a3, b, accumulate)                                   \
  "{ .reg .pred p; setp.ne.b32 p, %" #accumulate                                                               \
  ", 0;\n"                                                                                                     \
  "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #type "." #type " {" names "}, {%" #a0 ", %" #a1 ", %" #a2 \
  ", %" #a3 "}, %" #b ", p, 1, 1, 1; }\n"

namespace rondo::gpu {

template <class Element, int kN>
struct Wgmma;

// One product for each N and element type. The numbers are N / 2 and up: what comes after the accumulators.
#define RONDO_DEFINE_WGMMA(Element, type, n, names, c0, c1, c2, c3, c4, c5)                                        \
  template <>                                                                                                      \
  struct Wgmma<Element, n> {                                                                                       \
    RONDO_DEVICE static void Shared(float (&d)[n / 8][4], uint64_t a, uint64_t b, int accumulate) {                \
      asm volatile(RONDO_WGMMA_SHARED(n, type, names, c0, c1, c2)                                                  \
                   : RONDO_SUMS_##n(d)                                                                             \
                   : "l"(a), "l"(b), "r"(accumulate)                                                               \
                   : "memory");                                                                                    \
    }                                                                                                              \
    RONDO_DEVICE static void Registers(float (&d)[n / 8][4], const uint32_t (&a)[4], uint64_t b, int accumulate) { \
      asm volatile(RONDO_WGMMA_REGISTERS(n, type, names, c0, c1, c2, c3, c4, c5)                                   \
                   : RONDO_SUMS_##n(d)                                                                             \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate)                           \
                   : "memory");                                                                                    \
    }                                                                                                              \
  }
RONDO_DEFINE_WGMMA(Bf16, bf16, 64, RONDO_NAMES_32, 32, 33, 34, 35, 36, 37);
RONDO_DEFINE_WGMMA(Bf16, bf16, 128, RONDO_NAMES_64, 64, 65, 66, 67, 68, 69);
RONDO_DEFINE_WGMMA(Bf16, bf16, 256, RONDO_NAMES_128, 128, 129, 130, 131, 132, 133);
RONDO_DEFINE_WGMMA(Fp16, f16, 64, RONDO_NAMES_32, 32, 33, 34, 35, 36, 37);
RONDO_DEFINE_WGMMA(Fp16, f16, 128, RONDO_NAMES_64, 64, 65, 66, 67, 68, 69);
RONDO_DEFINE_WGMMA(Fp16, f16, 256, RONDO_NAMES_128, 128, 129, 130, 131, 132, 133);

}  // namespace rondo::gpu

#undef RONDO_DEFINE_WGMMA
#undef RONDO_WGMMA_REGISTERS
#undef RONDO_WGMMA_SHARED
#undef RONDO_SUMS_256
#undef RONDO_SUMS_128
#undef RONDO_SUMS_64
#undef RONDO_TILES_16
#undef RONDO_TILES_8
#undef RONDO_TILES_4
#undef RONDO_TILE
#undef RONDO_NAMES_128
#undef RONDO_NAMES_64
#undef RONDO_NAMES_32
#undef RONDO_NAMES_0_TO_99
#undef RONDO_NAMES_0_TO_59
#undef RONDO_NAMES_0_TO_29
#undef RONDO_NAMES_0_TO_9
#undef RONDO_NAMES_10
#undef RONDO_NAMES_8
