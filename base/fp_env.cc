#include "base/fp_env.h"

#include <xmmintrin.h>

namespace rondo {
namespace {
// 0x1f80: all exceptions masked, round to nearest. 0x8000: FTZ. 0x0040: DAZ.
constexpr unsigned kComputeMxcsr = 0x1f80 | 0x8000 | 0x0040;
}  // namespace

void SetComputeFpEnv() { _mm_setcsr(kComputeMxcsr); }

ScopedComputeFpEnv::ScopedComputeFpEnv() : saved_(_mm_getcsr()) { SetComputeFpEnv(); }
ScopedComputeFpEnv::~ScopedComputeFpEnv() { _mm_setcsr(saved_); }

}  // namespace rondo
