#include "worker/session/attention_jobs.h"

#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "worker/session/attention_store.h"
#include "worker/session/fault_point.h"
#include "worker/session/start_agreement.h"

namespace rondo {
namespace {

// What each rank of a job tells the others after a run.
struct RunShare {
  uint64_t sent_bytes = 0;
  uint64_t skipped_steps = 0;
  uint64_t memory_bytes = 0;
};

}  // namespace

AttentionJobs::~AttentionJobs() {
  if (context_.attention == nullptr) return;
  for (const auto& [id, entry] : jobs_) context_.attention->Remove(id);
}

uint64_t AttentionJobs::held_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [id, entry] : jobs_) bytes += entry.bytes;
  return bytes;
}

absl::StatusOr<AttentionJobs::Entry> AttentionJobs::MakeReady(const OpenAttention& open, uint64_t used_bytes) const {
  Entry entry;
  const int world = context_.transport->world_size();
  const int rank = context_.transport->rank();
  entry.ring_size = open.ring_size == 0 ? world : std::min(open.ring_size, world);
  if (rank >= entry.ring_size) return entry;
  if (context_.attention == nullptr) return absl::FailedPreconditionError("this rank takes no attention jobs");
  AttentionJobSpec spec = open.spec;
  spec.shape.leaf_level = context_.kernels.attention->leaf_level();
  entry.bytes = AttentionJobBytes(spec, entry.ring_size)[rank];
  // The coordinator admits by the same numbers; a rank that was told more than it has says so and does not overcommit.
  if (context_.kv_memory_bytes > 0 && used_bytes + entry.bytes > context_.kv_memory_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("KV memory: the job needs ", entry.bytes,
                                                     " bytes, other jobs hold ", used_bytes, " of ",
                                                     context_.kv_memory_bytes));
  }
  try {
    absl::StatusOr<std::shared_ptr<AttentionTensors>> tensors = AttentionTensors::Create(
        std::move(spec), entry.ring_size, *context_.kernels.attention, *context_.transport, *context_.pool);
    if (!tensors.ok()) return tensors.status();
    entry.tensors = *std::move(tensors);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  }
  return entry;
}

absl::StatusOr<bool> AttentionJobs::Open(OpenAttention open, uint64_t used_bytes,
                                         std::shared_ptr<std::atomic<bool>> cancelled) {
  absl::StatusOr<Entry> entry = MakeReady(open, used_bytes);
  // Before the ranks agree: as soon as rank 0 has reported, tensors may come to any of them.
  const bool keeps = entry.ok() && entry->tensors != nullptr;
  if (keeps) context_.attention->Add(open.id, open.token, entry->tensors);
  absl::StatusOr<StartVerdict> verdict =
      AgreeOnStart(*context_.transport, entry.status(), absl::Now() + context_.control_timeout);
  if (!verdict.ok()) return verdict.status();
  if (!verdict->ok()) {
    if (keeps) context_.attention->Remove(open.id);
    if (sink_ != nullptr) {
      JobResult result;
      result.id = open.id;
      result.finish_reason = "error";
      // To the coordinator UNAVAILABLE means that peers are lost, and they are all here.
      result.error = absl::IsUnavailable(verdict->why) ? absl::InternalError(verdict->why.message()) : verdict->why;
      sink_->Ended(result);
    }
    return false;
  }
  entry->cancelled = std::move(cancelled);
  jobs_[open.id] = *std::move(entry);
  if (sink_ != nullptr) sink_->AttentionOpened(open.id);
  return true;
}

absl::Status AttentionJobs::Run(const std::string& id, uint64_t sequence) {
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) return absl::OkStatus();
  Entry& entry = it->second;
  const absl::Status ready = entry.tensors == nullptr ? absl::OkStatus() : entry.tensors->BeginRun();
  absl::StatusOr<StartVerdict> verdict =
      AgreeOnStart(*context_.transport, ready, absl::Now() + context_.control_timeout);
  if (!verdict.ok()) return verdict.status();
  if (!verdict->ok()) {
    if (ready.ok() && entry.tensors != nullptr) entry.tensors->CancelBegin();
    if (sink_ != nullptr) {
      AttentionFigures figures;
      figures.id = id;
      figures.error = verdict->why;
      sink_->AttentionRan(figures);
    }
    return absl::OkStatus();
  }
  return entry.tensors == nullptr ? absl::OkStatus() : Compute(id, entry, sequence);
}

absl::Status AttentionJobs::Compute(const std::string& id, Entry& entry, uint64_t sequence) {
  Transport& transport = *context_.transport;
  const int rank = transport.rank();
  const absl::Time began = absl::Now();
  RingRunOptions options;
  options.strategy = entry.tensors->spec().strategy;
  options.rates = context_.rates;
  options.wait_timeout = context_.ring_timeout;
  options.job = sequence;
  absl::Time told = began;
  options.progress = [&](double fraction) {
    FaultPoint(rank);
    // Progress more often than this tells nobody anything.
    if (sink_ == nullptr || absl::Now() - told < absl::Milliseconds(100)) return;
    told = absl::Now();
    sink_->Progress(id, fraction);
  };
  absl::StatusOr<RingReport> report = entry.tensors->Run(options, *entry.cancelled);
  // Every rank of the ring knows of the cancellation now; its CancelJob is on the way and closes the job.
  if (absl::IsCancelled(report.status())) return absl::OkStatus();
  if (!report.ok()) return report.status();

  std::vector<RunShare> shares(entry.ring_size);
  shares[rank] = {report->sent_bytes, static_cast<uint64_t>(report->skipped_steps), entry.bytes};
  if (entry.ring_size > 1) {
    std::vector<absl::Span<std::byte>> parts;
    for (RunShare& share : shares) {
      parts.push_back(absl::MakeSpan(reinterpret_cast<std::byte*>(&share), sizeof(share)));
    }
    const absl::Status gathered = transport.AllGather(parts, absl::Now() + context_.ring_timeout);
    if (!gathered.ok()) return gathered;
  }
  if (sink_ == nullptr) return absl::OkStatus();
  AttentionFigures figures;
  figures.id = id;
  figures.run_us = absl::ToInt64Microseconds(absl::Now() - began);
  figures.workers = entry.ring_size;
  figures.strategy = entry.ring_size == 1 ? "local" : std::string(Name(report->choice.strategy));
  figures.strategy_reason = report->choice.reason;
  figures.pass_kv_us = report->choice.pass_kv_us;
  figures.pass_q_us = report->choice.pass_q_us;
  for (const RunShare& share : shares) {
    figures.exchanged_bytes += share.sent_bytes;
    figures.skipped_steps += share.skipped_steps;
    figures.memory_bytes_per_worker.push_back(share.memory_bytes);
  }
  sink_->AttentionRan(figures);
  return absl::OkStatus();
}

void AttentionJobs::Close(const std::string& id) {
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) return;
  if (it->second.tensors != nullptr) context_.attention->Remove(id);
  jobs_.erase(it);
  if (sink_ != nullptr) {
    JobResult result;
    result.id = id;
    result.finish_reason = "cancelled";
    sink_->Ended(result);
  }
}

}  // namespace rondo
