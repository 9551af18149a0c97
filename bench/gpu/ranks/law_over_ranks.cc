#include "bench/gpu/ranks/law_over_ranks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/bf16.h"
#include "base/check.h"
#include "bench/gpu/lines.h"
#include "bench/gpu/oracle.h"
#include "bench/gpu/ranks/forked_ranks.h"
#include "rondo/canonical.h"

namespace rondo::gpu_check {
namespace {

// Floats that the ranks write and this process reads; NaN until then.
class SharedFloats {
 public:
  explicit SharedFloats(int64_t count) : bytes_(static_cast<size_t>(count) * sizeof(float)) {
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) Fail(absl::StrCat("no ", bytes_, " bytes of memory for results"));
    data_ = static_cast<float*>(memory);
    std::fill_n(data_, count, std::numeric_limits<float>::quiet_NaN());
  }
  ~SharedFloats() { munmap(data_, bytes_); }
  SharedFloats(const SharedFloats&) = delete;
  SharedFloats& operator=(const SharedFloats&) = delete;
  float* get() const { return data_; }

 private:
  size_t bytes_;
  float* data_ = nullptr;
};

// Empty, or which ranks ended how.
std::string RunOn(int world, const RankJob& job, const RanksToCheck& check, const MakePlace& make, float* result) {
  const std::vector<std::string> ends = RunInProcesses(world, check.limit, [&](Transport& control) -> absl::Status {
    const int rank = control.rank();
    absl::StatusOr<std::unique_ptr<RankPlace>> place = make(control, rank % check.devices);
    if (!place.ok()) return place.status();
    return RunRankJob(job, **place, result + rank * job.result_floats(1));
  });
  std::string wrong;
  for (int rank = 0; rank < world; ++rank) {
    if (!ends[rank].empty()) absl::StrAppend(&wrong, wrong.empty() ? "" : "; ", "rank ", rank, ": ", ends[rank]);
  }
  return wrong;
}

// Numbers that differ from those of one rank, or were not written.
int64_t Different(const RankJob& job, int world, const float* result, const float* want) {
  int64_t different = 0;
  for (int rank = 0; rank < world; ++rank) {
    for (int64_t position = 0; position < job.tokens(); ++position) {
      if (position < job.prompt && ComputerOf(job, world, position) != rank) continue;
      const int64_t at = position * job.row_floats();
      const float* const row = result + rank * job.result_floats(1) + at;
      for (int64_t i = 0; i < job.row_floats(); ++i) {
        different += std::memcmp(row + i, want + at + i, sizeof(float)) != 0 || std::isnan(row[i]);
      }
    }
  }
  return different;
}

// Rows of one rank against float64 loops: the law alone would hold for zeros as well.
double WorstError(const RankJob& job, const float* result) {
  const AttentionShape& shape = job.shape;
  const auto row_of = [&](char what, int64_t position, int head) {
    std::vector<float> row(static_cast<size_t>(what == 'q' ? shape.q_heads : shape.kv_heads) * shape.head_dim);
    RowOfJob(job, what, position, row.data());
    return std::vector<float>(row.begin() + head * shape.head_dim, row.begin() + (head + 1) * shape.head_dim);
  };
  double worst = 0;
  const int head = shape.q_heads - 1, kv_head = shape.kv_heads - 1;
  for (const int64_t position : {int64_t{0}, job.prompt / 2, job.prompt - 1, job.tokens() - 1}) {
    HeadRows keys, values;
    for (int64_t key = 0; key <= position; ++key) {
      for (const float x : row_of('k', key, kv_head)) keys.push_back(FloatToBf16(x));
      for (const float x : row_of('v', key, kv_head)) values.push_back(FloatToBf16(x));
    }
    std::vector<float> q = row_of('q', position, head);
    for (float& x : q) x = Bf16ToFloat(FloatToBf16(x));
    const OracleRow exact = AttendRow(q, keys, values, position, {}, {.scale = shape.scale});
    const float* const got = result + position * job.row_floats() + head * shape.head_dim;
    worst = std::max(worst, OutError(exact, {got, got + shape.head_dim}));
  }
  return worst;
}

}  // namespace

void CheckLawOverRanks(const RanksToCheck& check, const MakePlace& make) {
  RankJob job = check.job;
  const SharedFloats want(job.result_floats(1));
  const std::string alone = RunOn(1, job, check, make, want.get());
  if (!alone.empty()) Fail("one rank: " + alone);
  const double worst = WorstError(job, want.get());
  Line("check")
      .Text("kernel", "one rank")
      .Text("case", absl::StrCat(job.prompt, " + ", job.drawn, " rows, against float64"))
      .Bool("pass", worst <= 1)
      .Number("out_error", worst)
      .Say();
  for (const int world : check.worlds) {
    for (const RingStrategy strategy : {RingStrategy::kPassKv, RingStrategy::kPassQ}) {
      job.strategy = strategy;
      // Chunks that end inside of what a rank keeps.
      job.chunk = world % 2 == 0 ? 0 : job.prompt / 2 + kBlockTokens;
      const SharedFloats result(job.result_floats(world));
      const std::string wrong = RunOn(world, job, check, make, result.get());
      const int64_t different = wrong.empty() ? Different(job, world, result.get(), want.get()) : -1;
      Line line("check");
      line.Text("kernel", absl::StrCat(world, " ranks on ", std::min(world, check.devices), " GPU(s)"))
          .Text("case", absl::StrCat(std::string(Name(strategy)), ", ", job.chunk == 0 ? "one chunk" : "two chunks",
                                     ", bits of one rank"))
          .Bool("pass", different == 0)
          .Count("different", different);
      if (!wrong.empty()) line.Text("why", wrong);
      line.Say();
    }
  }
}

}  // namespace rondo::gpu_check
