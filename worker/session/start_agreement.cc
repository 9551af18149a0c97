#include "worker/session/start_agreement.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rondo {
namespace {

// What a rank says; little-endian as it lies in memory.
struct StartReport {
  uint32_t code = 0;  // absl's status code; 0: this rank is ready
  uint32_t text_bytes = 0;
  char text[248] = {};
};
static_assert(sizeof(StartReport) == 256);

StartReport ReportOf(const absl::Status& status) {
  StartReport report;
  report.code = static_cast<uint32_t>(status.code());
  report.text_bytes = static_cast<uint32_t>(std::min(status.message().size(), sizeof(report.text)));
  std::memcpy(report.text, status.message().data(), report.text_bytes);
  return report;
}

}  // namespace

absl::StatusOr<StartVerdict> AgreeOnStart(Transport& transport, const absl::Status& mine, absl::Time deadline) {
  std::vector<StartReport> reports(transport.world_size());
  reports[transport.rank()] = ReportOf(mine);
  if (reports.size() > 1) {
    std::vector<absl::Span<std::byte>> parts;
    for (StartReport& report : reports) {
      parts.push_back(absl::MakeSpan(reinterpret_cast<std::byte*>(&report), sizeof(report)));
    }
    if (absl::Status gathered = transport.AllGather(parts, deadline); !gathered.ok()) return gathered;
  }
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const StartReport& report = reports[rank];
    if (report.code == 0) continue;
    const std::string text(report.text, std::min<size_t>(report.text_bytes, sizeof(report.text)));
    return StartVerdict{static_cast<int>(rank),
                        absl::Status(static_cast<absl::StatusCode>(report.code),
                                     absl::StrCat("rank ", rank, " could not start the job: ", text))};
  }
  return StartVerdict{};
}

}  // namespace rondo
