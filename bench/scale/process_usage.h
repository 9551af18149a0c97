// What the kernel knows of this process: CPU time and memory; used by scale_rank.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"

namespace rondo {

// User and system time of all threads.
inline double ProcessCpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * t.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A field of /proc/self/status in bytes: VmRSS, VmHWM (the peak). 0 where there is none.
inline uint64_t ProcessMemory(std::string_view field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.size() < field.size() + 1 || line.compare(0, field.size(), field) != 0 || line[field.size()] != ':')
      continue;
    const size_t begin = line.find_first_of("0123456789");
    uint64_t kib = 0;
    if (begin != std::string::npos && absl::SimpleAtoi(line.substr(begin, line.find(' ', begin) - begin), &kib)) {
      return kib * 1024;
    }
  }
  return 0;
}

}  // namespace rondo
