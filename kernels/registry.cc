#include "kernels/registry.h"

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "kernels/cpu/attention/factories.h"
#include "kernels/cpu/dense/factories.h"
#include "kernels/ref/factories.h"

namespace rondo {
namespace {

// Each returns what the CPU lacks, or nothing. __builtin_cpu_supports reads CPUID and, for the wide registers, XGETBV:
// an operating system that does not save zmm counts as a CPU without them.
std::string LacksNothing() { return ""; }

std::string LacksFma() { return __builtin_cpu_supports("fma") ? "" : " fma"; }

std::string LacksForAvx2() { return absl::StrCat(__builtin_cpu_supports("avx2") ? "" : " avx2", LacksFma()); }

std::string LacksForAvx512() {
  return absl::StrCat(__builtin_cpu_supports("avx512f") ? "" : " avx512f",
                      __builtin_cpu_supports("avx512bw") ? "" : " avx512bw",
                      __builtin_cpu_supports("avx512vl") ? "" : " avx512vl",
                      __builtin_cpu_supports("avx512dq") ? "" : " avx512dq", LacksForAvx2());
}

struct Entry {
  std::string_view name;
  const AttentionKernels* (*attention)();
  const DenseKernels* (*dense)();
  std::string (*lacks)();
};

// Fastest first; ref last, since it is chosen by name only.
constexpr Entry kEntries[] = {
    {"avx512", Avx512Attention, Avx512Dense, LacksForAvx512},
    {"avx2", Avx2Attention, Avx2Dense, LacksForAvx2},
    {"portable", PortableAttention, PortableDense, LacksFma},
    {"ref", RefAttention, RefDense, LacksNothing},
};

KernelSet Make(const Entry& entry) { return {entry.name, entry.attention(), entry.dense()}; }

}  // namespace

absl::StatusOr<KernelSet> SelectKernels(std::string_view name) {
  if (name.empty()) {
    const char* forced = std::getenv("RONDO_KERNELS");
    if (forced != nullptr) name = forced;
  }
  if (name.empty()) {
    for (const Entry& entry : kEntries) {
      if (entry.name != "ref" && entry.lacks().empty()) return Make(entry);
    }
    return absl::FailedPreconditionError(absl::StrCat("no kernels for this CPU: it lacks", LacksFma()));
  }
  std::string known;
  for (const Entry& entry : kEntries) {
    if (entry.name == name) {
      const std::string lacks = entry.lacks();
      if (lacks.empty()) return Make(entry);
      return absl::FailedPreconditionError(absl::StrCat("kernels ", Sv(name), ": this CPU lacks", lacks));
    }
    absl::StrAppend(&known, known.empty() ? "" : ", ", Sv(entry.name));
  }
  return absl::InvalidArgumentError(absl::StrCat("kernels \"", Sv(name), "\" are unknown; there are ", known));
}

std::vector<KernelSet> HostKernels() {
  std::vector<KernelSet> sets;
  for (const Entry& entry : kEntries) {
    if (entry.lacks().empty()) sets.push_back(Make(entry));
  }
  return sets;
}

std::vector<std::string> SkippedKernels() {
  std::vector<std::string> skipped;
  for (const Entry& entry : kEntries) {
    const std::string lacks = entry.lacks();
    if (!lacks.empty()) skipped.push_back(absl::StrCat(Sv(entry.name), ": this CPU lacks", lacks));
  }
  return skipped;
}

}  // namespace rondo
