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

  // Unfinished jobs by arrival, with `restarts` counting every run they have had; closed ones, oldest closing first, at
  // most `keep`.
  std::vector<Job> Unfinished() const;
  std::vector<Job> Closed(size_t keep) const;

 private:
  std::map<std::string, Job> jobs_;
  std::vector<std::string> closed_;
};

// The records from which JobHistory makes these jobs again: unfinished ones whole, closed ones without their prompts,
// in the order given. Leaves nothing else in the journal.
absl::Status Compact(Journal& journal, const std::vector<Job>& closed, const std::vector<Job>& unfinished, TimeUs now);

// When a growing journal is worth compacting: it is large, and at least twice what was left the last time, so that
// writing it anew never costs more than what was appended since.
class CompactionRule {
 public:
  CompactionRule(uint64_t at_least_bytes, uint64_t size_now) : at_least_(at_least_bytes) { Compacted(size_now); }
  bool Due(uint64_t size) const { return at_least_ > 0 && size >= due_at_; }
  // Also after a failure: the next try comes after as much again.
  void Compacted(uint64_t size_now) { due_at_ = size_now * 2 > at_least_ ? size_now * 2 : at_least_; }

 private:
  uint64_t at_least_;  // 0: never
  uint64_t due_at_ = 0;
};

}  // namespace rondo::coordinator
