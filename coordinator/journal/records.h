// The scheduler's records as journal payloads, and a journal's payloads as the jobs they tell of. Used at start-up and
// by the engine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/core/action.h"
#include "coordinator/core/job.h"
#include "coordinator/journal/journal.h"

namespace rondo::coordinator {

// A serialised rondo.v1.JournalRecord.
std::string EncodeRecord(const Record& record, TimeUs now);

// What a journal knows, record by record.
class JobHistory {
 public:
  absl::Status Apply(std::string_view payload);

  // Unfinished jobs by arrival; closed ones, oldest closing first, at most `keep`.
  std::vector<Job> Unfinished() const;
  std::vector<Job> Closed(size_t keep) const;

 private:
  std::map<std::string, Job> jobs_;
  std::vector<std::string> closed_;
};

// Leaves only what the next start needs: unfinished jobs whole, the last `keep` closed ones without their prompts.
absl::Status Compact(Journal& journal, const JobHistory& history, size_t keep, TimeUs now);

}  // namespace rondo::coordinator
