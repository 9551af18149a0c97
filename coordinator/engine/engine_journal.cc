// How the engine keeps the journal: records, a disk that is full for a while, compaction.
#include <utility>

#include "base/log.h"
#include "coordinator/engine/engine.h"

namespace rondo::coordinator {

std::vector<std::string> Engine::Record(const Actions& actions) {
  std::vector<std::string> lost;
  if (journal_ == nullptr || actions.append.empty()) return lost;
  absl::Status status;
  const bool was_behind = journal_behind_;
  const uint64_t before = journal_->size_bytes();
  if (was_behind) {
    // A record is missing, and what follows from it may not stand alone. Only writing everything anew heals that; with
    // a full disk it is tried for records that matter and not for every token.
    status = actions.must_sync ? CompactNow() : absl::OkStatus();
    if (status.ok()) journal_behind_ = !actions.must_sync;
  } else {
    for (const rondo::coordinator::Record& record : actions.append) {
      if (status.ok()) status = journal_->Append(EncodeRecord(record, Now()));
    }
    if (status.ok() && actions.must_sync) status = journal_->Sync();
    if (status.ok() && unrestored_ == 0 && compaction_->Due(journal_->size_bytes())) {
      // If it fails, the journal is as it was and goes on growing.
      if (absl::Status failed = CompactNow(); !failed.ok()) LogError("compaction: ", failed.ToString());
    }
  }
  if (status.ok()) return lost;
  journal_behind_ = true;
  LogError(status.ToString());
  for (const rondo::coordinator::Record& record : actions.append) {
    if (const auto* submitted = std::get_if<SubmittedRecord>(&record)) lost.push_back(submitted->spec.id);
  }
  // A submission that is written, but perhaps not on the disk: its client hears that the job is refused, so no restart
  // may find it and run it.
  if (!lost.empty() && !was_behind) {
    if (absl::Status failed = journal_->Retract(before); !failed.ok()) LogError(failed.ToString());
  }
  return lost;
}

// Called when the scheduler's state has been, or is to be, recorded up to its last step: its jobs are what the new file
// must tell of.
absl::Status Engine::CompactNow() {
  if (unrestored_ > 0) return absl::UnavailableError("jobs of the journal are still being restored");
  std::vector<Job> closed, unfinished;
  {
    const std::lock_guard lock(state_mutex_);
    // Attention jobs are not in the journal: their tensors would not be there when it is read.
    for (const Job* job : scheduler_.ClosedJobs()) {
      if (job->spec.attention == nullptr) closed.push_back(*job);
    }
    for (const Job* job : scheduler_.ActiveJobs()) {
      if (job->spec.attention == nullptr) unfinished.push_back(*job);
    }
  }
  const uint64_t before = journal_->size_bytes();
  const absl::Status status = Compact(*journal_, closed, unfinished, Now());
  if (status.ok()) LogInfo("journal compacted from ", before, " to ", journal_->size_bytes(), " bytes");
  compaction_->Compacted(journal_->size_bytes());
  return status;
}

}  // namespace rondo::coordinator
