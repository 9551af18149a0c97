// What one core of this machine can do at most; the denominators of attention_bench.
#pragma once

#include <cstddef>

namespace rondo {

// float32 fused multiply-adds on registers alone, 2 operations each, widest vectors of the CPU; about 15 ms.
double FmaGflops();

// Reads every byte in order, as fast as vector loads go. Multiples of 256 bytes.
void ReadAll(const std::byte* data, size_t bytes);

}  // namespace rondo
