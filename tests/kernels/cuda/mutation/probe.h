// What probes for mutants share: the first thing that is wrong is printed and ends the program with 1.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/kernels/cuda/emulated.h"

namespace rondo::cuda {

[[noreturn]] inline void Found(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::exit(1);
}

inline void CheckReport(const simt::Report& report) {
  if (!report.ok()) Found(report.fault);
  if (report.counters.bank_conflicts != 0) Found("bank conflicts");
}

inline void CheckBits(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  if (a.size() != b.size() || std::memcmp(a.data(), b.data(), a.size() * 4) != 0)
    Found(std::string("other bits: ") + what);
}

inline void CheckRight(const Problem& problem, const Tensors& tensors, const Finished& got, const char* what) {
  CheckReport(got.report);
  const Errors errors = Compare(PlainLoops(problem, tensors), got.out, got.lse);
  if (!Acceptable(problem.type, errors)) Found(std::string("wrong ") + what + ": " + problem.Describe());
}

}  // namespace rondo::cuda
