// One run of a cell on one rank: what the tensor and the model cell have in common; used by scale_rank.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "bench/scale/cell_options.h"
#include "bench/scale/process_usage.h"
#include "bench/scale/rank_record.h"
#include "kernels/registry.h"
#include "rondo/transport.h"

namespace rondo {

struct CellOutcome {
  std::string digest;    // of the output in row order; on rank 0
  std::string strategy;  // that was used
  std::string shape;     // "8/2x64"
  double flops = 0;      // useful operations of attention, all ranks and layers together
  RankRecord record;
};

// Time and memory of what lies between Start and Stop.
class CellMeter {
 public:
  explicit CellMeter(Transport& transport) : transport_(transport) {}

  // What is resident now is not the cell's.
  void Base(RankRecord& record);
  // All ranks leave together.
  absl::Status Start();
  absl::Time start() const { return start_; }
  void Stop(RankRecord& record) const;

 private:
  Transport& transport_;
  absl::Time start_;
  double cpu_start_ = 0;
};

// Attention alone over generated tensors. Collective.
absl::StatusOr<CellOutcome> RunTensorCell(const CellOptions& options, const KernelSet& kernels, Transport& transport,
                                          ThreadPool& pool);

// Prefill of a generated prompt by a model; the digest is of the hidden rows after the final norm. Collective.
absl::StatusOr<CellOutcome> RunModelCell(const CellOptions& options, const KernelSet& kernels, Transport& transport,
                                         ThreadPool& pool);

// Multiplications and additions of causal attention: a row sees half of all keys on average, and each visible key costs
// 2 * head_dim for its score and as many for its value.
constexpr double CausalFlops(int64_t tokens, int64_t q_heads, int64_t head_dim) {
  const double n = static_cast<double>(tokens);
  return 4.0 * static_cast<double>(q_heads * head_dim) * n * (n + 1) / 2;
}

}  // namespace rondo
