// Ranks that beat and do not compute: a deadlock, a disk or a device that never answers. Others wait for such a rank in
// the middle of a ring step, so as a rule all of a group stop, and the one that stopped first is to blame.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/core/scheduler.h"

namespace rondo::coordinator {

void Scheduler::On(const BeatEvent& e) {
  const auto group = groups_.find(e.epoch);
  if (group == groups_.end() || e.rank >= group->second.ranks.size()) return;
  Group::Rank& rank = group->second.ranks[e.rank];
  if (e.progress != rank.progress || e.applied_number != rank.applied_number) rank.moved = now_;
  rank.progress = e.progress;
  rank.applied_number = e.applied_number;
  for (const std::string& id : e.fed_jobs) {
    Job* job = RunningJob(e.epoch, id);
    // As long as rows come its client is there, however long all of them take.
    if (job != nullptr && job->stage == AttentionStage::kUploading) job->stage_since = now_;
  }
}

bool Scheduler::HasWork(const Group& group) const {
  const auto behind = [&](const Group::Rank& rank) { return rank.applied_number < group.last_number; };
  if (std::any_of(group.ranks.begin(), group.ranks.end(), behind)) return true;
  return std::any_of(group.occupants.begin(), group.occupants.end(), [&](const auto& occupant) {
    const auto job = jobs_.find(occupant.first);
    if (!occupant.second.attention || job == jobs_.end()) return true;
    // Between its steps an attention job waits for its client.
    return job->second.stage == AttentionStage::kOpening || job->second.stage == AttentionStage::kAttending;
  });
}

void Scheduler::NoteBusy() {
  for (auto& [epoch, group] : groups_) {
    if (!HasWork(group)) {
      group.busy_since = 0;
    } else if (group.busy_since == 0) {
      group.busy_since = now_;
    }
  }
}

void Scheduler::CheckStalls() {
  if (options_.stall_timeout_us == 0) return;
  std::vector<std::pair<uint64_t, std::string>> stuck;
  for (const auto& [epoch, group] : groups_) {
    if (group.busy_since == 0) continue;
    const auto still = [&](const Group::Rank& rank) {
      return now_ - std::max(rank.moved, group.busy_since) >= options_.stall_timeout_us;
    };
    const bool all_still = std::all_of(group.ranks.begin(), group.ranks.end(), still);
    uint64_t furthest = 0;
    for (const Group::Rank& rank : group.ranks) furthest = std::max(furthest, rank.applied_number);
    // A rank may rightly wait while another computes for hours; but not when others have gone past it.
    const Group::Rank* first = nullptr;
    for (const Group::Rank& rank : group.ranks) {
      if (!still(rank) || (!all_still && rank.applied_number >= furthest)) continue;
      if (first == nullptr || rank.moved < first->moved) first = &rank;
    }
    if (first == nullptr) continue;
    stuck.emplace_back(
        epoch, absl::StrFormat("rank %d is stuck: no progress for %.1f s, at command %d of %d",
                               first - group.ranks.data(), (now_ - std::max(first->moved, group.busy_since)) / 1e6,
                               first->applied_number, group.last_number));
  }
  for (const auto& [epoch, why] : stuck) {
    Send(groups_.at(epoch), LeaveCommand{why, false});
    LoseGroup(epoch, why);
  }
}

}  // namespace rondo::coordinator
