// What the ring tells kernels of its rows: those of a prompt were given, whatever the strategy, and the rest drawn.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/worker/ring/plain_kernels.h"
#include "tests/worker/ring/ring_harness.h"
#include "worker/transport/loopback_transport.h"

namespace rondo::testing {
namespace {

// Plain kernels that remember the kind of every row they saw.
class RecordingKernels : public AttentionKernels {
 public:
  std::string_view name() const override { return plain_.name(); }
  void Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
              const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::set<int64_t>& rows = queries.kind == RowKind::kGiven ? given_ : drawn_;
      for (int64_t i = 0; i < queries.count; ++i) rows.insert(queries.first_position + i);
    }
    plain_.Attend(shape, queries, run, mask, nodes, pool);
  }
  void Merge(const AttentionShape& shape, int64_t count, const PartialNode& left, const PartialNode& right,
             ThreadPool& pool) const override {
    plain_.Merge(shape, count, left, right, pool);
  }
  void Finish(const AttentionShape& shape, int64_t count, const PartialNode& node, float* out, float* lse,
              ThreadPool& pool) const override {
    plain_.Finish(shape, count, node, out, lse, pool);
  }

  const std::set<int64_t>& given() const { return given_; }
  const std::set<int64_t>& drawn() const { return drawn_; }

 private:
  const AttentionKernels& plain_ = PlainKernels();
  mutable std::mutex mutex_;
  mutable std::set<int64_t> given_, drawn_;
};

std::set<int64_t> Positions(int64_t begin, int64_t end) {
  std::set<int64_t> positions;
  for (; begin < end; ++begin) positions.insert(begin);
  return positions;
}

TEST(RowKindTest, PromptsAreGivenAndTheRestDrawnInEveryStrategyAndRing) {
  for (const RingStrategy strategy : {RingStrategy::kPassKv, RingStrategy::kPassQ}) {
    for (const int world : {1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << world << " ranks, " << Name(strategy));
      RecordingKernels kernels;
      RingJob job;
      job.kernels = &kernels;
      job.shape = {.q_heads = 2, .kv_heads = 1, .head_dim = 8, .kv_type = KvType::kF32, .scale = 0.35355339f};
      job.layers = 1;
      job.prompt = 601;
      job.chunk = 300;
      job.decode = 4;
      job.strategy = strategy;
      LoopbackHub hub(world);
      const std::atomic<bool> never{false};
      std::vector<std::thread> ranks;
      for (int rank = 0; rank < world; ++rank) {
        ranks.emplace_back([&, rank] {
          const std::unique_ptr<Transport> transport = hub.Connect(rank);
          EXPECT_TRUE(RunRingJob(job, *transport, world, never).ok());
        });
      }
      for (std::thread& rank : ranks) rank.join();
      EXPECT_EQ(kernels.given(), Positions(0, 601));
      EXPECT_EQ(kernels.drawn(), Positions(601, 605));
    }
  }
}

}  // namespace
}  // namespace rondo::testing
