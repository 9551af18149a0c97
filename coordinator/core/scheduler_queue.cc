// The queue: what fits, who is next, where it starts, and what those who wait are told.
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/reservation.h"
#include "coordinator/core/scheduler.h"

namespace rondo::coordinator {
namespace {

// A model's jobs run where its bits come from; attention jobs bring everything along and run anywhere.
bool CanRun(const JobSpec& spec, const GroupInfo& group) {
  return spec.attention != nullptr || spec.bits_key == group.bits_key;
}

}  // namespace

absl::Status Scheduler::CheckFits(const JobSpec& spec) const {
  absl::Status why;
  for (const auto& [epoch, group] : groups_) {
    if (!CanRun(spec, group.info)) continue;
    if (spec.ring_size > group.info.world()) {
      why = absl::InvalidArgumentError(
          absl::StrCat("ring_size: ", spec.ring_size, " ranks asked, the group has ", group.info.world()));
      continue;
    }
    if (spec.attention != nullptr) {
      // What cannot fit however it is dealt is refused before it is dealt, which takes seconds for huge tensors.
      const uint32_t ring = RingSize(spec, group.info);
      const auto& memory = group.info.kv_memory;
      const uint64_t have = std::accumulate(memory.begin(), memory.begin() + ring, uint64_t{0});
      if (const uint64_t least = LeastAttentionBytes(spec.attention->spec); least > have) {
        why = absl::ResourceExhaustedError(
            absl::StrCat("memory: the tensors need at least ", least, " bytes, ", ring, " ranks have ", have));
        continue;
      }
    }
    const std::vector<uint64_t> need = KvBytesByRank(spec, group.info, RingSize(spec, group.info));
    size_t rank = 0;
    while (rank < need.size() && need[rank] <= group.info.kv_memory[rank]) ++rank;
    if (rank == need.size()) return absl::OkStatus();
    if (spec.attention != nullptr) {
      why = absl::ResourceExhaustedError(absl::StrCat("memory: the tensors need ", need[rank], " bytes on rank ", rank,
                                                      " of ", need.size(), ", which has ", group.info.kv_memory[rank]));
      continue;
    }
    why = absl::ResourceExhaustedError(absl::StrCat("KV memory: ", spec.prompt_tokens, " + ", spec.max_tokens,
                                                    " tokens need ", need[rank], " bytes on rank ", rank, " of ",
                                                    need.size(), ", which has ", group.info.kv_memory[rank]));
  }
  return why;
}

void Scheduler::Enqueue(Job& job) {
  job.state = JobState::kQueued;
  job.run_steps = 0;
  job.prefill_fraction = 0;
  job.waiting_since = 0;
  const auto later = [&](const std::string& id) { return jobs_.at(id).spec.arrival > job.spec.arrival; };
  queue_.insert(std::find_if(queue_.begin(), queue_.end(), later), job.spec.id);
}

void Scheduler::LeaveQueue(const std::string& id) { std::erase(queue_, id); }

void Scheduler::NoteWaiting() {
  for (const std::string& id : queue_) {
    Job& job = jobs_.at(id);
    if (AnyGroupFor(job.spec)) {
      job.waiting_since = 0;
    } else if (job.waiting_since == 0) {
      job.waiting_since = now_;
      ProgressNote note;
      job.told_position = QueuePosition(id);
      note.queue_position = job.told_position;
      note.message = "waiting for a group of workers";
      if (job.restarts == 0) Stream(id, std::move(note));
    }
  }
}

void Scheduler::StartJobs() {
  // First come, first started, among the jobs that the same groups can run: for an attention job these are all.
  std::set<std::string> blocked;
  bool attention_blocked = false;
  for (const std::string& id : std::vector<std::string>(queue_)) {
    Job& job = jobs_.at(id);
    const bool attention = job.spec.attention != nullptr;
    if (attention_blocked || (attention ? !blocked.empty() : blocked.contains(job.spec.bits_key))) continue;
    if (TryStart(job)) continue;
    if (attention) {
      attention_blocked = true;
    } else {
      blocked.insert(job.spec.bits_key);
    }
  }
}

bool Scheduler::TryStart(Job& job) {
  Group* best = nullptr;
  std::vector<uint64_t> best_bytes;
  for (auto& [epoch, group] : groups_) {
    if (!CanRun(job.spec, group.info)) continue;
    if (job.spec.attention == nullptr && group.generating() >= options_.max_running) continue;
    if (best != nullptr && group.occupants.size() >= best->occupants.size()) continue;
    std::vector<uint64_t> bytes = Need(job, group.info);
    bool fits = true;
    for (size_t r = 0; r < bytes.size(); ++r) fits &= bytes[r] + group.reserved[r] <= group.info.kv_memory[r];
    if (!fits) continue;
    best = &group;
    best_bytes = std::move(bytes);
  }
  if (best == nullptr) return false;
  const uint32_t ring = RingSize(job.spec, best->info);
  Start(job, *best, ring, std::move(best_bytes));
  return true;
}

std::vector<uint64_t> Scheduler::Need(Job& job, const GroupInfo& group) const {
  const uint32_t ring = RingSize(job.spec, group);
  std::vector<uint64_t>& known = job.need[{ring, group.prefill_chunk, group.kv_bytes_per_token}];
  if (known.empty()) known = KvBytesByRank(job.spec, group, ring);
  return known;
}

void Scheduler::Start(Job& job, Group& group, uint32_t ring, std::vector<uint64_t> bytes) {
  const JobSpec& spec = job.spec;
  LeaveQueue(spec.id);
  for (size_t r = 0; r < bytes.size(); ++r) group.reserved[r] += bytes[r];
  group.occupants[spec.id] = {std::move(bytes), spec.attention != nullptr};
  job.state = JobState::kRunning;
  job.epoch = group.info.epoch;
  job.started = now_;
  job.run_steps = 0;
  job.told_position = 0;
  if (spec.attention != nullptr) {
    Enter(job, AttentionStage::kOpening);
    return Send(group, OpenAttentionCommand{spec.id, spec.attention, ring});
  }
  out_.append.push_back(StartedRecord{spec.id, job.epoch, job.restarts});
  for (int64_t begin = 0; begin < spec.prompt_tokens; begin += options_.prompt_slice_ids) {
    const int64_t end = std::min(begin + options_.prompt_slice_ids, spec.prompt_tokens);
    Send(group, PromptSliceCommand{spec.id, spec.prompt, begin, end});
  }
  Send(group, StartCommand{spec, ring});
  ProgressNote note;
  note.phase = Phase::kPrefill;
  Stream(spec.id, std::move(note));
}

void Scheduler::TellPositions() {
  for (uint32_t position = 0; position < queue_.size(); ++position) {
    Job& job = jobs_.at(queue_[position]);
    if (job.told_position == position) continue;
    job.told_position = position;
    ProgressNote note;
    note.queue_position = position;
    Stream(job.spec.id, std::move(note));
  }
}

bool Scheduler::AnyGroupFor(const JobSpec& spec) const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [&](const auto& entry) { return CanRun(spec, entry.second.info); });
}

}  // namespace rondo::coordinator
