// One attention job as a ring of ranks runs it: a prompt in chunks, then drawn rows; used by the law over ranks.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "bench/gpu/ranks/rank_place.h"
#include "rondo/attention_kernels.h"
#include "rondo/ring.h"

namespace rondo::gpu_check {

struct RankJob {
  AttentionShape shape;  // bf16 keys and values; leaf_level is the kernels'
  int64_t prompt = 0;
  int64_t drawn = 0;
  int64_t chunk = 0;  // 0: the whole prompt at once
  RingStrategy strategy = RingStrategy::kPassKv;
  uint64_t seed = 1;

  int64_t tokens() const { return prompt + drawn; }
  int64_t row_floats() const { return int64_t{shape.q_heads} * shape.head_dim; }
  // Of a result: [world] areas [tokens, q_heads, head_dim], a rank's own. A rank writes the rows that it computes;
  // drawn rows every rank does.
  int64_t result_floats(int world) const { return world * tokens() * row_floats(); }
};

// This rank's part; its area of the result is at `area`.
absl::Status RunRankJob(const RankJob& job, RankPlace& place, float* area);

// Which rank computes row `position` of a prompt.
int ComputerOf(const RankJob& job, int world, int64_t position);

// Queries, keys and values of a row, the same on every rank.
void RowOfJob(const RankJob& job, char what, int64_t position, float* to);

}  // namespace rondo::gpu_check
