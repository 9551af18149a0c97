// Which kernels this host can run, and the choice of one; used by main programs, the session and tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rondo/attention_kernels.h"
#include "rondo/dense_kernels.h"

namespace rondo {

// Both kernel sets of one name. portable, avx2 and avx512 give the same bits; ref is for accuracy and has its own.
struct KernelSet {
  std::string_view name;
  const AttentionKernels* attention = nullptr;
  const DenseKernels* dense = nullptr;
};

// Which sets may meet in one ring: all of a family give the same bits. sm80, sm90, ...: GPUs of that capability;
// generations of tensor cores differ in bits.
inline std::string_view KernelFamily(std::string_view name) {
  return name == "ref" || name.substr(0, 2) == "sm" ? name : "cpu";
}

// The set called `name`. Empty: the one the environment variable RONDO_KERNELS names, and without it the fastest this
// CPU can run (never ref). INVALID_ARGUMENT for an unknown name, FAILED_PRECONDITION naming what the CPU lacks.
absl::StatusOr<KernelSet> SelectKernels(std::string_view name);

// All sets this host can run, fastest first, ref last.
std::vector<KernelSet> HostKernels();

// One line for each set it cannot run: "avx512: this CPU lacks avx512f".
std::vector<std::string> SkippedKernels();

}  // namespace rondo
