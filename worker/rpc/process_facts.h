// What a rank tells about its process: host, memory, CPUs. Linux only.
#pragma once

#include <cstdint>
#include <string>

namespace rondo {

std::string HostName();
uint64_t ResidentBytes();  // 0 when /proc cannot be read
std::string CpuSet();      // the CPUs this process may use, as the kernel writes them: "0-1"
int CpuCount();            // how many those are, at least 1
uint64_t AvailableMemoryBytes();

}  // namespace rondo
