// One attention problem over tensors on any number of ranks, its float64 answer, and worlds of ranks as threads that
// many problems share; used by the tests of RingAttend over loopback and MPI.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/thread_pool.h"
#include "rondo/ring.h"
#include "worker/transport/loopback_transport.h"

namespace rondo::testing {

// A problem that owns what its spec points to. Keys and values that no query may see are NaN.
struct AttendCase {
  AttendCase() = default;
  AttendCase(const AttendCase&) = delete;
  AttendCase& operator=(const AttendCase&) = delete;

  RingProblem problem;
  const AttentionKernels* kernels = nullptr;
  std::vector<int64_t> starts;
  std::vector<float> sinks;
  std::vector<float> slopes;
  std::vector<float> q, k, v;

  // Points the problem at the vectors above and fills q, k, v from `seed`.
  void Fill(uint64_t seed);
  std::string Text() const;
};

struct AttendAnswer {
  std::vector<float> out;  // [q_tokens, q_heads, head_dim]
  std::vector<float> lse;  // [q_tokens, q_heads]
};

// This rank's part of `c`; its rows go into `answer`, which is the whole one.
absl::StatusOr<RingReport> RunRank(const AttendCase& c, Transport& transport, ThreadPool& threads,
                                   const RingRunOptions& options, const std::atomic<bool>& cancelled,
                                   AttendAnswer& answer);

AttendAnswer RunOnOneRank(const AttendCase& c);

// Plain softmax attention in double, straight from the words of the mask.
struct ExactAnswer {
  std::vector<double> out;
  std::vector<double> lse;
};
ExactAnswer Exact(const AttendCase& c);
bool Sees(const AttendCase& c, int64_t query_position, int64_t key);

// Empty, or the first difference.
std::string CompareBits(const AttendCase& c, const AttendAnswer& got, const AttendAnswer& want);
std::string CompareExact(const AttendCase& c, const AttendAnswer& got, const ExactAnswer& want);

AttendAnswer EmptyAnswer(const AttendCase& c);

// `world` ranks as threads that wait for work.
class RankThreads {
 public:
  explicit RankThreads(int world, int compute_threads = 1);
  ~RankThreads();

  int world() const { return static_cast<int>(ranks_.size()); }
  // Runs `work` on every rank and returns when all are done.
  void Run(const std::function<void(Transport&, ThreadPool&)>& work);

 private:
  void Loop(int rank, int compute_threads);

  LoopbackHub hub_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(Transport&, ThreadPool&)>* work_ = nullptr;
  uint64_t generation_ = 0;
  int running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> ranks_;
};

// `c` on all ranks; the report is rank 0's. All must succeed.
struct WorldRun {
  AttendAnswer answer;
  std::vector<absl::StatusOr<RingReport>> reports;  // by rank
};
WorldRun RunOnWorld(const AttendCase& c, RankThreads& ranks, const RingRunOptions& options);

}  // namespace rondo::testing
