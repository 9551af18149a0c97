// What one core of this machine can do at most, measured beside the kernels; the denominators of matmul_bench.
#pragma once

#include <cstddef>

namespace rondo {

// CPU time of the calling thread: on a busy machine it leaves out the time others ran.
double ThreadSeconds();

// float32 fused multiply-adds on registers alone, GFLOP/s at two operations each.
double FmaPeak();

// int8 products on registers alone, 1e9 operations a second at two a product: vpmaddubsw + vpmaddwd + vpaddd (AVX2), or
// vpdpbusd where the CPU has it.
double DotPeak();

// The same for signed bytes, whose weights' signs go to the other factor: vpsignb + vpmaddubsw + vpmaddwd + vpaddd, the
// sequence of Q8_0. vpdpbusd again where the CPU has it.
double SignedDotPeak();

// The same of vpmaddubsw + vpaddw, sums left in i16: what codes of six bits or less come near to. vpdpbusd again where
// the CPU has it.
double PairPeak();

// Bytes a second, in 1e9, of reading `bytes` in order, as fast as vector loads go.
double ReadRate(const std::byte* data, size_t bytes);

}  // namespace rondo
