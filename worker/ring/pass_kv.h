// The strategy in which keys and values go round the ring: each rank keeps its queries, and in step s attends the
// blocks of rank (rank - s) while those of step s + 1 are in flight.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "rondo/attention.h"
#include "worker/ring/circulation.h"
#include "worker/ring/layout.h"
#include "worker/ring/node_forest.h"
#include "worker/ring/ring_context.h"

namespace rondo {

class PassKv {
 public:
  explicit PassKv(RingContext& context);

  // The following Run calls, one for each layer, are for the queries and blocks of `layout`; `position` names the call
  // in messages.
  void Begin(const RingLayout& layout, int64_t position);
  // q and out [rows, q_heads, head_dim], lse [rows, q_heads] or null; the keys and values have been stored.
  absl::Status Run(int32_t layer, const float* q, float* out, float* lse);

  // Sets aside memory for two buffers of so many bytes, so that later Begin calls need not.
  void Reserve(size_t buffer_bytes) { ring_.Reserve(buffer_bytes); }

  // What each rank needs beside KV, queries and output.
  static std::vector<RingBuffers> Buffers(const AttentionShape& shape, const RingLayout& layout);

  // Blocks as units of a circulation: how far each must go.
  static std::vector<std::vector<Circulation::Unit>> Units(const AttentionShape& shape, const RingLayout& layout);

  // Storage of partial nodes so far.
  size_t node_bytes() const { return pool_.reserved_bytes(); }

 private:
  void Attend(int32_t layer, const float* q, float* out, float* lse);
  void ViewHeld();
  void KeepHeld(int32_t layer);
  void AttendStrip(const Strip& strip, NodeForest& forest, const float* q);

  RingContext& context_;
  Circulation ring_;
  NodePool pool_;
  int64_t position_ = 0;
  int64_t kv_tokens_ = 0;
  std::vector<Strip> strips_;
  std::vector<NodeForest> forests_;               // of each strip
  std::vector<int> last_steps_;                   // in which each strip sees its last block
  std::vector<std::vector<int64_t>> block_ids_;   // by origin
  std::vector<std::vector<KvBlock>> block_runs_;  // of the blocks held
  size_t block_run_count_ = 0;
  std::vector<BlockRange> kept_;
  std::vector<const std::byte*> own_;
  std::vector<PartialNode> nodes_;
  bool skipped_ = false;  // this layer's rows are not all computed
};

}  // namespace rondo
