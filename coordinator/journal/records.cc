#include "coordinator/journal/records.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "coordinator/journal/result_proto.h"
#include "rondo/v1/journal.pb.h"

namespace rondo::coordinator {
namespace {

void Encode(const SubmittedRecord& record, v1::JournalRecord* out) {
  const JobSpec& spec = record.spec;
  v1::JobSubmitted* to = out->mutable_submitted();
  to->set_job_id(spec.id);
  to->set_request_number(spec.request_number);
  if (spec.prompt != nullptr) to->mutable_prompt_ids()->Add(spec.prompt->begin(), spec.prompt->end());
  to->set_prompt_tokens(static_cast<uint64_t>(spec.prompt_tokens));
  to->set_deadline_unix_us(spec.deadline);
  to->set_bits_key(spec.bits_key);
  to->set_submitted_unix_us(spec.submitted);
  to->set_arrival(spec.arrival);
  v1::GenerateRequest* request = to->mutable_request();
  request->set_max_tokens(spec.max_tokens);
  ToProto(spec.sampling, request->mutable_sampling());
  for (const std::string& stop : spec.stops) request->add_stop(stop);
  request->set_want_logits(spec.want_logits);
  request->set_ring_size(spec.ring_size);
  request->mutable_forced_tokens()->Add(spec.forced_tokens.begin(), spec.forced_tokens.end());
  request->set_reference(spec.reference);
}

void Encode(const StartedRecord& record, v1::JournalRecord* out) {
  out->mutable_started()->set_job_id(record.job_id);
  out->mutable_started()->set_epoch(record.epoch);
  out->mutable_started()->set_earlier_runs(record.earlier_runs);
}

void Encode(const TokensRecord& record, v1::JournalRecord* out) {
  v1::JobTokens* to = out->mutable_tokens();
  to->set_job_id(record.job_id);
  to->set_first_step(record.first_step);
  to->mutable_tokens()->Add(record.tokens.begin(), record.tokens.end());
}

void Encode(const ClosedRecord& record, v1::JournalRecord* out) {
  v1::JobClosed* to = out->mutable_closed();
  to->set_job_id(record.job_id);
  to->set_state(Name(record.state));
  to->set_code(static_cast<int32_t>(record.error.code()));
  to->set_error(std::string(record.error.message()));
  if (record.state != JobState::kFailed) ToProto(record.job_id, record.result, to->mutable_result());
}

JobSpec DecodeSpec(const v1::JobSubmitted& from) {
  JobSpec spec;
  spec.id = from.job_id();
  spec.arrival = from.arrival();
  spec.prompt = std::make_shared<const std::vector<int32_t>>(from.prompt_ids().begin(), from.prompt_ids().end());
  spec.prompt_tokens = static_cast<int64_t>(from.prompt_tokens());
  spec.max_tokens = from.request().max_tokens();
  spec.sampling = FromProto(from.request().sampling());
  spec.stops.assign(from.request().stop().begin(), from.request().stop().end());
  spec.want_logits = from.request().want_logits();
  spec.ring_size = from.request().ring_size();
  spec.forced_tokens.assign(from.request().forced_tokens().begin(), from.request().forced_tokens().end());
  spec.reference = from.request().reference();
  spec.request_number = from.request_number();
  spec.bits_key = from.bits_key();
  spec.submitted = from.submitted_unix_us();
  spec.deadline = from.deadline_unix_us();
  return spec;
}

absl::Status Broken(std::string_view what, const std::string& job) {
  return absl::DataLossError(absl::StrCat("journal: ", Sv(what), " of job ", job));
}

}  // namespace

std::string EncodeRecord(const Record& record, TimeUs now) {
  v1::JournalRecord out;
  out.set_unix_us(now);
  std::visit([&](const auto& r) { Encode(r, &out); }, record);
  return out.SerializeAsString();
}

absl::Status JobHistory::Apply(std::string_view payload) {
  v1::JournalRecord record;
  if (!record.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError("journal: a record with a right CRC is not a JournalRecord");
  }
  if (record.has_submitted()) {
    Job& job = jobs_[record.submitted().job_id()];
    job.spec = DecodeSpec(record.submitted());
    return absl::OkStatus();
  }
  const std::string& id = record.has_started()  ? record.started().job_id()
                          : record.has_tokens() ? record.tokens().job_id()
                                                : record.closed().job_id();
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) return Broken("a record without the submission", id);
  Job& job = it->second;
  if (record.has_tokens()) {
    if (record.tokens().first_step() != job.tokens.size()) return Broken("tokens out of order", id);
    job.tokens.insert(job.tokens.end(), record.tokens().tokens().begin(), record.tokens().tokens().end());
  } else if (record.has_started()) {
    // Of an unfinished job every run was lost, the last one with the coordinator.
    job.restarts = record.started().earlier_runs() + 1;
  } else if (record.has_closed()) {
    const v1::JobClosed& closed = record.closed();
    job.state = closed.state() == "finished"    ? JobState::kFinished
                : closed.state() == "cancelled" ? JobState::kCancelled
                                                : JobState::kFailed;
    job.error = absl::Status(static_cast<absl::StatusCode>(closed.code()), closed.error());
    job.result = FromProto(closed.result());
    closed_.push_back(id);
  }
  return absl::OkStatus();
}

std::vector<Job> JobHistory::Unfinished() const {
  std::vector<Job> unfinished;
  for (const auto& [id, job] : jobs_) {
    if (job.state == JobState::kQueued) unfinished.push_back(job);
  }
  std::sort(unfinished.begin(), unfinished.end(),
            [](const Job& a, const Job& b) { return a.spec.arrival < b.spec.arrival; });
  return unfinished;
}

std::vector<Job> JobHistory::Closed(size_t keep) const {
  std::vector<Job> closed;
  for (size_t i = closed_.size() - std::min(keep, closed_.size()); i < closed_.size(); ++i) {
    closed.push_back(jobs_.at(closed_[i]));
    closed.back().spec.prompt = nullptr;
  }
  return closed;
}

absl::Status Compact(Journal& journal, const std::vector<Job>& closed, const std::vector<Job>& unfinished, TimeUs now) {
  return journal.Rewrite([&](Journal& fresh) -> absl::Status {
    for (const std::vector<Job>* jobs : {&closed, &unfinished}) {
      for (const Job& job : *jobs) {
        std::vector<Record> records{SubmittedRecord{job.spec}};
        const uint32_t runs = job.restarts + (job.state == JobState::kRunning ? 1 : 0);
        if (jobs == &unfinished && runs > 0) records.push_back(StartedRecord{job.spec.id, job.epoch, runs - 1});
        if (!job.tokens.empty()) records.push_back(TokensRecord{job.spec.id, 0, job.tokens});
        if (jobs == &closed) {
          records.push_back(ClosedRecord{job.spec.id, job.state, job.error, job.result});
        }
        for (const Record& record : records) {
          if (absl::Status s = fresh.Append(EncodeRecord(record, now)); !s.ok()) return s;
        }
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace rondo::coordinator
