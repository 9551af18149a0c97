#include "worker/session/attention_tensors.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/aligned.h"
#include "base/bf16.h"
#include "base/check.h"
#include "worker/ring/first_ranks.h"

namespace rondo {
namespace {

// A piece of 4 MiB is copied in a millisecond. The other ranks wait for this one's word meanwhile.
constexpr absl::Duration kStorePatience = absl::Seconds(5);

using Parts = absl::Span<const absl::Span<const uint8_t>>;

// Copies elements out of the parts one after the other, widening bfloat16.
class Copier {
 public:
  Copier(Parts parts, KvType type) : parts_(parts), type_(type) {}

  void Copy(float* to, int64_t count) {
    if (type_ == KvType::kF32) return Bytes(reinterpret_cast<uint8_t*>(to), count * 4);
    uint16_t narrow[1024];
    for (int64_t at = 0; at < count;) {
      const int64_t n = std::min<int64_t>(count - at, 1024);
      Bytes(reinterpret_cast<uint8_t*>(narrow), n * 2);
      for (int64_t i = 0; i < n; ++i) to[at + i] = Bf16ToFloat(narrow[i]);
      at += n;
    }
  }

 private:
  void Bytes(uint8_t* to, uint64_t bytes) {
    while (bytes > 0) {
      if (offset_ == parts_[part_].size()) {
        ++part_;
        offset_ = 0;
        continue;
      }
      const uint64_t n = std::min<uint64_t>(bytes, parts_[part_].size() - offset_);
      std::memcpy(to, parts_[part_].data() + offset_, n);
      offset_ += n;
      to += n;
      bytes -= n;
    }
  }

  Parts parts_;
  const KvType type_;
  size_t part_ = 0;
  uint64_t offset_ = 0;
};

uint64_t TotalBytes(Parts parts) {
  uint64_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  return bytes;
}

}  // namespace

absl::StatusOr<std::shared_ptr<AttentionTensors>> AttentionTensors::Create(AttentionJobSpec spec, int ranks,
                                                                           const AttentionKernels& kernels,
                                                                           Transport& transport, ThreadPool& pool) {
  RONDO_CHECK(spec.shape.leaf_level == kernels.leaf_level());
  std::shared_ptr<AttentionTensors> job(new AttentionTensors(std::move(spec)));
  job->problem_ = job->spec_.Problem();
  job->transport_ = std::make_unique<FirstRanks>(transport, ranks);
  absl::StatusOr<std::unique_ptr<RingAttend>> ring = RingAttend::Create(job->problem_, kernels, *job->transport_, pool);
  if (!ring.ok()) return ring.status();
  job->ring_ = *std::move(ring);
  job->q_share_ = RowShare(job->ring_->q_rows());
  job->kv_share_ = RowShare(job->ring_->kv_rows());
  const int64_t rows = job->q_share_.rows();
  try {
    job->q_ = HugeArray<float>(rows * job->spec_.QRow());
    job->out_ = HugeArray<float>(rows * job->spec_.QRow());
    if (job->spec_.want_lse) job->lse_ = HugeArray<float>(rows * job->spec_.shape.q_heads);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot map ", rows, " rows of Q and O"));
  }
  job->arrived_[0].Reset(rows);
  job->arrived_[1].Reset(job->kv_share_.rows());
  job->arrived_[2].Reset(job->kv_share_.rows());
  return job;
}

AttentionTensors::~AttentionTensors() = default;

absl::Status AttentionTensors::Put(JobTensor tensor, int64_t first_row, KvType type, Parts parts) {
  if (tensor > JobTensor::kV) {
    return absl::InvalidArgumentError(absl::StrCat("tensor: ", Name(tensor), " cannot be put, only Q, K and V"));
  }
  const bool is_q = tensor == JobTensor::kQ;
  const uint64_t row_bytes = (is_q ? spec_.QRow() : spec_.KvRow()) * ElementBytes(type);
  const uint64_t bytes = TotalBytes(parts);
  if (bytes == 0 || bytes % row_bytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", bytes, " bytes are not whole rows of ", Name(tensor), ", which have ", row_bytes));
  }
  int64_t rows = static_cast<int64_t>(bytes / row_bytes);
  const absl::StatusOr<int64_t> at = (is_q ? q_share_ : kv_share_).Locate(first_row, &rows);
  if (!at.ok()) return absl::Status(at.status().code(), absl::StrCat(Name(tensor), ": ", at.status().message()));
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kOpen) return absl::FailedPreconditionError("the job runs or has run: no rows are taken");
    ++writers_;
  }
  // However this ends: the step loop waits for it.
  const absl::Cleanup stored = [this] {
    const std::lock_guard lock(mutex_);
    if (--writers_ == 0) quiet_.notify_all();
  };
  try {
    if (is_q) {
      Copier(parts, type).Copy(q_.data() + *at * spec_.QRow(), rows * spec_.QRow());
    } else {
      StoreKv(tensor, first_row, rows, type, parts);
    }
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("data: no memory left to store ", rows, " rows of ", Name(tensor)));
  }
  fed_.store(true, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  arrived_[static_cast<int>(tensor)].Mark(*at, rows);
  return absl::OkStatus();
}

void AttentionTensors::StoreKv(JobTensor tensor, int64_t first_row, int64_t rows, KvType type, Parts parts) {
  // A piece is gathered while it is warm in the cache: the ring wants whole rows at an address that floats may have.
  thread_local Scratch<float> scratch;
  constexpr int64_t kStripElements = 32 << 10;  // 128 KiB of float32, half of a small second-level cache
  const int64_t strip = std::max<int64_t>(1, kStripElements / spec_.KvRow());
  float* const values = scratch.Get(strip * spec_.KvRow());
  Copier copier(parts, type);
  for (int64_t row = 0; row < rows; row += strip) {
    const int64_t count = std::min(strip, rows - row);
    copier.Copy(values, count * spec_.KvRow());
    if (tensor == JobTensor::kK) {
      ring_->StoreKeys(first_row + row, count, values);
    } else {
      ring_->StoreValues(first_row + row, count, values);
    }
  }
}

absl::StatusOr<AttentionTensors::Rows> AttentionTensors::Get(JobTensor tensor, int64_t first_row, int64_t rows) const {
  if (tensor != JobTensor::kO && tensor != JobTensor::kLse) {
    return absl::InvalidArgumentError(absl::StrCat("tensor: ", Name(tensor), " cannot be fetched, only O and LSE"));
  }
  if (tensor == JobTensor::kLse && !spec_.want_lse) {
    return absl::FailedPreconditionError("tensor: LSE was not asked for when the job was opened (want_lse)");
  }
  if (rows < 0) return absl::InvalidArgumentError(absl::StrCat("rows: ", rows, " is negative"));
  const absl::StatusOr<int64_t> at = q_share_.Locate(first_row, &rows);
  if (!at.ok()) return absl::Status(at.status().code(), absl::StrCat(Name(tensor), ": ", at.status().message()));
  const std::lock_guard lock(mutex_);
  if (state_ != State::kDone) return absl::FailedPreconditionError("the job has not run yet: Attend comes first");
  const int64_t row = tensor == JobTensor::kO ? spec_.QRow() : spec_.shape.q_heads;
  return Rows{(tensor == JobTensor::kO ? out_ : lse_).data() + *at * row, rows, row};
}

absl::Status AttentionTensors::BeginRun() {
  std::unique_lock lock(mutex_);
  if (state_ != State::kOpen) return absl::FailedPreconditionError("the job has run already");
  if (!quiet_.wait_for(lock, absl::ToChronoNanoseconds(kStorePatience), [this] { return writers_ == 0; })) {
    return absl::FailedPreconditionError(
        absl::StrCat(writers_, " pieces are still being stored after ", absl::FormatDuration(kStorePatience)));
  }
  std::string missing;
  for (int t = 0; t < 3; ++t) {
    if (arrived_[t].count() == arrived_[t].total()) continue;
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", Name(static_cast<JobTensor>(t)), " has ",
                    arrived_[t].count(), " of ", arrived_[t].total(), " rows");
  }
  if (!missing.empty()) return absl::FailedPreconditionError(missing);
  state_ = State::kRunning;
  return absl::OkStatus();
}

void AttentionTensors::CancelBegin() {
  const std::lock_guard lock(mutex_);
  RONDO_CHECK(state_ == State::kRunning);
  state_ = State::kOpen;
}

absl::StatusOr<RingReport> AttentionTensors::Run(const RingRunOptions& options, const std::atomic<bool>& cancelled) {
  absl::StatusOr<RingReport> report =
      ring_->Run(q_.data(), out_.data(), spec_.want_lse ? lse_.data() : nullptr, options, cancelled);
  if (report.ok()) {
    const std::lock_guard lock(mutex_);
    state_ = State::kDone;
  }
  return report;
}

}  // namespace rondo
