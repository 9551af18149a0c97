// Ring attention over tensors of one sequence, sharded over the ranks of a Transport: what attention jobs, the
// library's users and the benches call. Any number of ranks gives the same bits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rondo/attention.h"
#include "rondo/attention_kernels.h"
#include "rondo/transport.h"

namespace rondo {

class ThreadPool;

// Queries [q_tokens, q_heads, head_dim] over keys and values [kv_tokens, kv_heads, head_dim]. Query i has position
// kv_tokens - q_tokens + i: the mask is aligned to the end, and early queries of a longer q see nothing when causal.
// q_tokens < kv_tokens is a cached prefix: T new tokens after P = kv_tokens - q_tokens cached ones.
struct RingProblem {
  AttentionShape shape = {};  // kv_type is how keys and values are kept and sent
  MaskSpec mask = {};
  int64_t q_tokens = 0;
  int64_t kv_tokens = 0;
  const float* sinks = nullptr;  // [q_heads], logits; null: those of shape.score, if any
};

// INVALID_ARGUMENT naming the field, the value and the limit.
absl::Status Validate(const RingProblem& problem);

enum class RingStrategy : uint8_t { kAuto, kPassKv, kPassQ };
constexpr std::string_view Name(RingStrategy s) {
  return s == RingStrategy::kAuto ? "auto" : s == RingStrategy::kPassKv ? "pass-kv" : "pass-q";
}
std::optional<RingStrategy> ParseRingStrategy(std::string_view text);

// What one rank can do, measured or given; the selector's input.
struct RingRates {
  double flops = 0;        // attention FLOP/s of one rank
  double bytes_per_s = 0;  // of one link, one direction
};

// A strategy and the times the selector expected of both (microseconds of one layer), with its reason in one line.
struct RingChoice {
  RingStrategy strategy = RingStrategy::kPassKv;
  double pass_kv_us = 0;
  double pass_q_us = 0;
  std::string reason;
};
// A pure function of the problem, the world and the rates: every rank comes to the same choice.
RingChoice ChooseStrategy(const RingProblem& problem, int world, const RingRates& rates);

// Which rows each rank keeps and computes: a pure function of (problem, world). Runs are in row indices, ascending.
struct RingShares {
  std::vector<std::vector<PositionRun>> q_rows;   // by rank, of [0, q_tokens): brought, and attended rows taken home
  std::vector<std::vector<PositionRun>> kv_rows;  // by rank, of [0, kv_tokens)
};
RingShares PlanShares(const RingProblem& problem, int world);

struct RingRunOptions {
  RingStrategy strategy = RingStrategy::kAuto;
  RingRates rates = {};  // for kAuto; zeros: pass-KV
  // Of each wait for a peer. It must cover a peer's compute of one ring step, not only the wire.
  absl::Duration wait_timeout = absl::Seconds(60);
  uint64_t job = 0;  // the same on all ranks and different from the run before; goes into every header
  // Called on the calling thread after every piece of work, with this rank's part done so far, up to 1. May be empty.
  std::function<void(double fraction)> progress;
};

// One ring step as one rank lived it.
struct RingStepTimes {
  absl::Time begin;
  absl::Duration compute;       // attending and merging
  absl::Duration exposed_wait;  // then waiting for the next blocks with nothing to compute
  uint64_t sent_bytes = 0;
};

struct RingReport {
  RingChoice choice;
  std::vector<RingStepTimes> steps;
  uint64_t sent_bytes = 0;    // by this rank
  int64_t skipped_steps = 0;  // hops in which nothing was visible: neither computed nor sent
  uint64_t node_bytes = 0;    // storage of partial nodes on this rank, at its largest
};

// Memory of one rank.
struct RingBytes {
  uint64_t kv = 0;     // kept keys and values
  uint64_t wire = 0;   // buffers of what is received and sent
  uint64_t nodes = 0;  // partial nodes
  uint64_t total() const { return kv + wire + nodes; }
};

// One rank's part of a problem. All ranks of the transport create it with the same problem and make the same calls.
// One thread at a time; the arguments outlive it.
class RingAttend {
 public:
  // INVALID_ARGUMENT as Validate, or where the kernels have no code for the shape; RESOURCE_EXHAUSTED when the KV of this rank's share cannot be mapped.
  static absl::StatusOr<std::unique_ptr<RingAttend>> Create(const RingProblem& problem, const AttentionKernels& kernels,
                                                            Transport& transport, ThreadPool& pool);
  ~RingAttend();

  // This rank's shares.
  absl::Span<const PositionRun> q_rows() const;
  absl::Span<const PositionRun> kv_rows() const;

  // What each of `world` ranks will need beside queries and output; with kAuto whichever strategy needs more.
  static std::vector<RingBytes> Bytes(const RingProblem& problem, int world, RingStrategy strategy);

  // Keeps rows [row, row + count) of k and v, each [count, kv_heads, head_dim] float32, rounding to the KV type. All of
  // them lie in this rank's share. Any order, before Run.
  void StoreKeys(int64_t row, int64_t count, const float* k);
  void StoreValues(int64_t row, int64_t count, const float* v);

  // Collective. UNAVAILABLE when a peer is gone, CANCELLED on every rank once `cancelled` was set on one.
  absl::StatusOr<RingReport> Run(const float* q,  // [rows of q_rows(), q_heads, head_dim]
                                 float* out,      // the same shape
                                 float* lse,      // [rows, q_heads], natural log; null: not wanted
                                 const RingRunOptions& options, const std::atomic<bool>& cancelled);

 private:
  struct Impl;
  explicit RingAttend(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rondo
