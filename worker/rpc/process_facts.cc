#include "worker/rpc/process_facts.h"

#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace rondo {
namespace {

// The rest of the first line of `file` that begins with `key`, without leading white space.
std::string ProcField(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t value = line.find_first_not_of(" \t", key.size());
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

uint64_t KibField(const char* file, const std::string& key) {
  std::istringstream in(ProcField(file, key));
  uint64_t kib = 0;
  in >> kib;
  return kib << 10;
}

}  // namespace

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

uint64_t ResidentBytes() { return KibField("/proc/self/status", "VmRSS:"); }
std::string CpuSet() { return ProcField("/proc/self/status", "Cpus_allowed_list:"); }
uint64_t AvailableMemoryBytes() { return KibField("/proc/meminfo", "MemAvailable:"); }

int CpuCount() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count > 0 ? count : 1;
}

}  // namespace rondo
