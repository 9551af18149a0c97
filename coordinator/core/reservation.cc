#include "coordinator/core/reservation.h"

#include <algorithm>

#include "rondo/canonical.h"
#include "rondo/plan.h"

namespace rondo::coordinator {

uint32_t RingSize(const JobSpec& spec, const GroupInfo& group) {
  return spec.ring_size == 0 ? group.world() : std::min(spec.ring_size, group.world());
}

std::vector<uint64_t> KvBytesByRank(const JobSpec& spec, const GroupInfo& group, uint32_t ring) {
  if (spec.attention != nullptr) return AttentionJobBytes(spec.attention->spec, static_cast<int>(ring));
  std::vector<uint64_t> bytes(ring, 0);
  if (spec.reference) return bytes;
  const int64_t total = spec.prompt_tokens + int64_t{spec.max_tokens};
  const ShardPlan plan = ShardPlan::Zigzag(spec.prompt_tokens, static_cast<int>(ring), group.prefill_chunk);
  const uint64_t block_bytes = static_cast<uint64_t>(kBlockTokens) * group.kv_bytes_per_token;
  for (int64_t block = 0; block < BlocksFor(total); ++block) bytes[plan.Owner(block)] += block_bytes;
  return bytes;
}

}  // namespace rondo::coordinator
