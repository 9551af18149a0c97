#include <fstream>
#include <vector>

#include "absl/time/clock.h"
#include "bench/scale/cell.h"

namespace rondo {

void CellMeter::Base(RankRecord& record) {
  std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM starts again from what is resident
  record.base_bytes = ProcessMemory("VmRSS");
}

absl::Status CellMeter::Start() {
  std::vector<std::byte> bytes(transport_.world_size());
  std::vector<absl::Span<std::byte>> parts;
  for (std::byte& byte : bytes) parts.push_back(absl::MakeSpan(&byte, 1));
  if (absl::Status s = transport_.AllGather(parts, absl::Now() + absl::Minutes(10)); !s.ok()) return s;
  start_ = absl::Now();
  cpu_start_ = ProcessCpuSeconds();
  return absl::OkStatus();
}

void CellMeter::Stop(RankRecord& record) const {
  record.elapsed = absl::Now() - start_;
  record.cpu_seconds = ProcessCpuSeconds() - cpu_start_;
  record.peak_bytes = ProcessMemory("VmHWM");
  record.rank = transport_.rank();
}

}  // namespace rondo
