#include "coordinator/core/reservation.h"

#include <algorithm>

#include "rondo/canonical.h"
#include "rondo/plan.h"

namespace rondo::coordinator {
namespace {

constexpr int64_t kTurn = 64;  // blocks; whole runs of any power of two up to it

}  // namespace

uint32_t RingSize(const JobSpec& spec, const GroupInfo& group) {
  return spec.ring_size == 0 ? group.world() : std::min(spec.ring_size, group.world());
}

std::vector<uint64_t> KvBytesByRank(const JobSpec& spec, const GroupInfo& group, uint32_t ring) {
  if (spec.attention != nullptr) {
    AttentionJobSpec dealt = spec.attention->spec;
    dealt.shape.leaf_level = group.leaf_level;
    return AttentionJobBytes(dealt, static_cast<int>(ring));
  }
  std::vector<uint64_t> bytes(ring, 0);
  if (spec.reference) return bytes;
  const int64_t total = spec.prompt_tokens + int64_t{spec.max_tokens};
  const ShardPlan plan =
      ShardPlan::Zigzag(spec.prompt_tokens, static_cast<int>(ring), group.prefill_chunk, group.leaf_level);
  const int64_t blocks = BlocksFor(total);
  const int64_t prompt_blocks = std::min(blocks, WholeLeaves({0, BlocksFor(spec.prompt_tokens)}, group.leaf_level).end);
  for (int64_t block = 0; block < prompt_blocks; ++block) ++bytes[plan.Owner(block)];
  // The answer's blocks go round the ranks in runs of four, or of a leaf, and max_tokens may be large. Of as many
  // blocks as kTurn for each rank every rank has kTurn: such turns need no loop.
  const int64_t round = kTurn * int64_t{ring};
  const int64_t rounds = (blocks - prompt_blocks) / round;
  for (uint64_t& count : bytes) count += static_cast<uint64_t>(kTurn * rounds);
  for (int64_t block = prompt_blocks + rounds * round; block < blocks; ++block) ++bytes[plan.Owner(block)];
  for (uint64_t& count : bytes) count *= static_cast<uint64_t>(kBlockTokens) * group.kv_bytes_per_token;
  return bytes;
}

}  // namespace rondo::coordinator
