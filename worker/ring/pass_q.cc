#include "worker/ring/pass_q.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "worker/ring/end_layer.h"
#include "worker/ring/node_plan.h"

namespace rondo {
PassQ::PassQ(RingContext& context)
    : context_(context),
      ring_(context, HostMemory()),
      delivery_(context),
      pool_(context.kv.shape(), StripTokens(context.kv.shape().leaf_level), context.kernels.memory()),
      attender_(context, StripTokens(context.kv.shape().leaf_level), RowKind::kGiven) {}

std::vector<std::vector<Circulation::Unit>> PassQ::Units(const AttentionShape& shape, const RingLayout& layout) {
  const int ranks = layout.world();
  const size_t row_bytes = sizeof(float) * shape.q_heads * shape.head_dim;
  std::vector<std::vector<Circulation::Unit>> units(ranks);
  for (int origin = 0; origin < ranks; ++origin) {
    for (const Strip& strip : layout.strips[origin]) {
      int reach = ranks - 1;
      while (reach > 0 && !Overlaps(layout.blocks[(origin + reach) % ranks], strip.visible)) --reach;
      units[origin].push_back({row_bytes * strip.count, reach});
    }
  }
  return units;
}

PassQ::Answer PassQ::PlanAnswer(const AttentionShape& shape, const RingLayout& layout, int holder, int origin) {
  Answer answer;
  const std::vector<Strip>& strips = layout.strips[origin];
  for (size_t i = 0; i < strips.size(); ++i) {
    const std::vector<NodeId> nodes = OwnNodes(layout.blocks[holder], strips[i].visible, shape.leaf_level);
    if (nodes.empty()) continue;
    answer.strips.push_back(i);
    answer.nodes.insert(answer.nodes.end(), nodes.begin(), nodes.end());
    answer.ends.push_back(answer.nodes.size());
    answer.bytes += nodes.size() * NodeFloats(shape, strips[i].count) * sizeof(float);
  }
  return answer;
}

size_t PassQ::PartialBytes(const AttentionShape& shape, const RingLayout& layout, int holder, int origin) {
  return PlanAnswer(shape, layout, holder, origin).bytes;
}

// Nodes come home in the order of steps, one at a time, and all strips are finished at the end. A holder computes those
// of a strip in pieces, one for each complete subtree of a run.
std::vector<RingBuffers> PassQ::Buffers(const AttentionShape& shape, const RingLayout& layout) {
  const int ranks = layout.world();
  const std::vector<std::vector<Circulation::Unit>> units = Units(shape, layout);
  std::vector<size_t> given(ranks, 0), taken(ranks, 0), nodes(ranks, 0), pieces(ranks, 0);
  for (int origin = 0; origin < ranks; ++origin) {
    const std::vector<Strip>& strips = layout.strips[origin];
    std::vector<NodeCount> home(strips.size());
    size_t now = 0;
    for (int step = 0; step < ranks; ++step) {
      const int holder = (origin + step) % ranks;
      const Answer answer = PlanAnswer(shape, layout, holder, origin);
      given[holder] = std::max(given[holder], answer.bytes);
      if (holder != origin) taken[origin] = std::max(taken[origin], answer.bytes);
      size_t node = 0;
      for (size_t i = 0; i < answer.strips.size(); ++i) {
        NodeCount& forest = home[answer.strips[i]];
        now -= forest.size();
        for (; node < answer.ends[i]; ++node) {
          nodes[origin] = std::max(nodes[origin], now + forest.size() + 1);
          forest.Insert(answer.nodes[node]);
        }
        now += forest.size();
        for (const BlockRange& run : layout.blocks[holder]) {
          const BlockRange seen = Intersect(strips[answer.strips[i]].visible, run);
          if (seen.empty()) continue;
          // The first piece of each node is computed where the node is to be.
          const size_t first = i == 0 ? 0 : answer.ends[i - 1];
          const auto in_run = std::count_if(answer.nodes.begin() + first, answer.nodes.begin() + answer.ends[i],
                                            [&](NodeId id) { return id.begin() < seen.end && id.end() > seen.begin; });
          pieces[holder] = std::max(pieces[holder], DyadicNodes(seen, shape.leaf_level).size() - in_run);
        }
      }
    }
  }
  std::vector<RingBuffers> buffers;
  for (int rank = 0; rank < ranks; ++rank) {
    buffers.push_back({2 * (Circulation::BufferBytes(units, rank) + given[rank] + taken[rank]),
                       (nodes[rank] + pieces[rank]) * NodePool::SlabBytes(shape, StripTokens(shape.leaf_level))});
  }
  return buffers;
}

void PassQ::Begin(const RingLayout& layout, int64_t position) {
  const AttentionShape& shape = context_.kv.shape();
  const int ranks = context_.ring_size;
  RONDO_CHECK(layout.world() == ranks);
  layout_ = layout;
  position_ = position;
  ring_.Plan(RingHeader::kQueries, Units(shape, layout), position);
  given_.clear();
  taken_.clear();
  for (int s = 0; s < ranks; ++s) {
    const int origin = (context_.rank() + ranks - s) % ranks;
    const int holder = (context_.rank() + s) % ranks;
    given_.push_back(PlanAnswer(shape, layout, context_.rank(), origin));
    given_.back().peer = origin;
    taken_.push_back(PlanAnswer(shape, layout, holder, context_.rank()));
    taken_.back().peer = holder;
    given_floats_[s % 2].Get(given_.back().bytes / sizeof(float));
    if (s > 0) taken_floats_[s % 2].Get(taken_.back().bytes / sizeof(float));
  }
  const std::vector<Strip>& strips = layout.strips[context_.rank()];
  ResetForests(strips, forests_, pool_);
  delivery_.Plan(layout, position);
}

absl::Status PassQ::Run(int32_t layer, const float* q, float* out, float* lse) {
  layer_ = layer;
  skipped_ = false;
  if (absl::Status posted = delivery_.Post(layer); !posted.ok()) return posted;
  const int64_t row_size = int64_t{context_.kv.shape().q_heads} * context_.kv.shape().head_dim;
  own_.clear();
  for (const Strip& strip : layout_.strips[context_.rank()]) {
    own_.push_back(reinterpret_cast<const std::byte*>(q + strip.first_row * row_size));
  }
  ring_.Begin(layer, own_);
  attender_.View(layout_.blocks[context_.rank()], layer, layout_.kv_tokens);
  for (;;) {
    StepRecorder recorder(context_);
    const int step = ring_.step();
    if (!ring_.last()) {
      if (absl::Status posted = ring_.Post(); !posted.ok()) return posted;
    }
    AttendHeld();
    if (step == 0) TakeOwn();
    if (step > 0) {
      if (absl::Status posted = PostPartials(); !posted.ok()) return posted;
    }
    if (step > 1) {
      if (absl::Status taken = TakePartials(step - 1); !taken.ok()) return taken;
    }
    if (ring_.last()) {
      if (step > 0) {
        if (absl::Status taken = TakePartials(step); !taken.ok()) return taken;
      }
      break;
    }
    if (absl::Status received = ring_.Receive(); !received.ok()) return received;
  }
  context_.stats.skipped_steps += ring_.skipped_hops();
  return Finish(layer, out, lse);
}

void PassQ::AttendHeld() {
  ScopedTimer timer(context_.stats.compute);
  const AttentionShape& shape = context_.kv.shape();
  const Answer& answer = given_[ring_.step()];
  skipped_ = skipped_ || ring_.skipped();
  float* floats = given_floats_[ring_.step() % 2].Get(0);
  size_t held = 0;
  size_t node = 0;
  for (size_t i = 0; i < answer.strips.size(); ++i) {
    skipped_ = skipped_ || context_.Cancelling();
    if (skipped_) return;
    while (ring_.units()[held] != static_cast<int32_t>(answer.strips[i])) ++held;
    const Strip& strip = layout_.strips[ring_.origin()][answer.strips[i]];
    targets_.clear();
    for (; node < answer.ends[i]; ++node) {
      targets_.push_back(NodeAt(shape, strip.count, answer.nodes[node], floats));
      floats += NodeFloats(shape, strip.count);
    }
    attender_.Attend(strip, reinterpret_cast<const float*>(ring_.data(held)), targets_, context_.threads);
    context_.Progress(ring_.step(), i + 1, answer.strips.size());
  }
}

void PassQ::TakeOwn() {
  if (!skipped_) Insert(given_[0], given_floats_[0].Get(0));
}

absl::Status PassQ::PostPartials() {
  const int step = ring_.step();
  const int parity = step % 2;
  const Answer& given = given_[step];
  const Answer& taken = taken_[step];
  const int to = given.bytes > 0 ? given.peer : Transport::kNobody;
  const int from = taken.bytes > 0 ? taken.peer : Transport::kNobody;
  if (given.bytes == 0 && taken.bytes == 0) return absl::OkStatus();
  const bool skip = skipped_ || context_.Cancelling();
  RingHeader& header = given_header_[parity];
  header = context_.Header(RingHeader::kPartials, layer_, position_);
  header.step = step;
  header.payload_bytes = skip ? 0 : given.bytes;
  if (skip) header.flags = RingHeader::kSkipped;
  const absl::StatusOr<Transport::Pending> header_posted =
      context_.transport.SendRecv(to, std::as_const(header).bytes(), from, taken_header_[parity].bytes());
  if (!header_posted.ok()) return header_posted.status();
  const absl::Span<const std::byte> out{reinterpret_cast<const std::byte*>(given_floats_[parity].Get(0)),
                                        header.payload_bytes};
  const absl::Span<std::byte> in{reinterpret_cast<std::byte*>(taken_floats_[parity].Get(0)), taken.bytes};
  const absl::StatusOr<Transport::Pending> posted = context_.transport.SendRecv(to, out, from, in);
  if (!posted.ok()) return posted.status();
  header_pending_[parity] = *header_posted;
  floats_pending_[parity] = *posted;
  if (given.bytes > 0) context_.stats.sent_bytes += sizeof(RingHeader) + header.payload_bytes;
  return absl::OkStatus();
}

absl::Status PassQ::TakePartials(int step) {
  const int parity = step % 2;
  const Answer& taken = taken_[step];
  if (given_[step].bytes == 0 && taken.bytes == 0) return absl::OkStatus();
  size_t header_bytes = 0;
  size_t float_bytes = 0;
  {
    ScopedTimer timer(context_.stats.exposed_wait);
    ++context_.stats.waits;
    const absl::Time deadline = context_.Deadline();
    const absl::StatusOr<size_t> header = context_.transport.Wait(header_pending_[parity], deadline);
    if (!header.ok()) return header.status();
    const absl::StatusOr<size_t> floats = context_.transport.Wait(floats_pending_[parity], deadline);
    if (!floats.ok()) return floats.status();
    header_bytes = *header;
    float_bytes = *floats;
  }
  if (taken.bytes == 0) return absl::OkStatus();
  RingHeader expected = context_.Header(RingHeader::kPartials, layer_, position_);
  expected.step = step;
  expected.origin = taken.peer;
  expected.payload_bytes = taken.bytes;
  RingHeader& header = taken_header_[parity];
  if (header_bytes != sizeof(RingHeader)) header.magic = 0;
  if (absl::Status due = CheckHeader(expected, header, taken.peer, float_bytes); !due.ok()) {
    context_.transport.Abort(due);
    return due;
  }
  if (header.flags != 0) {
    context_.peer_cancelled = true;
    skipped_ = true;
  }
  if (!skipped_) {
    ScopedTimer timer(context_.stats.compute);
    Insert(taken, taken_floats_[parity].Get(0));
  }
  return absl::OkStatus();
}

void PassQ::Insert(const Answer& answer, const float* floats) {
  const AttentionShape& shape = context_.kv.shape();
  TensorMemory& memory = context_.kernels.memory();
  size_t node = 0;
  for (size_t i = 0; i < answer.strips.size(); ++i) {
    NodeForest& forest = forests_[answer.strips[i]];
    const size_t size = NodeFloats(shape, forest.count());
    for (; node < answer.ends[i]; ++node, floats += size) {
      const PartialNode kept = pool_.Acquire(answer.nodes[node]);
      const PartialNode came = NodeAt(shape, forest.count(), answer.nodes[node], const_cast<float*>(floats));
      memory.Copy(kept.o, came.o, (came.m - came.o) * sizeof(float));
      memory.Copy(kept.m, came.m, (came.l - came.m) * sizeof(float));
      memory.Copy(kept.l, came.l, (came.l - came.m) * sizeof(float));
      forest.Insert(kept, context_.kernels, shape, pool_, context_.threads);
    }
  }
}

absl::Status PassQ::Finish(int32_t layer, float* out, float* lse) {
  if (absl::Status delivered = delivery_.Finish(); !delivered.ok()) return delivered;
  const std::vector<Strip>& strips = layout_.strips[context_.rank()];
  if (skipped_) {
    SkipStrips(context_, strips, absl::MakeSpan(forests_), out, lse, pool_);
  } else {
    ScopedTimer timer(context_.stats.compute);
    for (size_t i = 0; i < strips.size(); ++i) FinishStrip(context_, strips[i], forests_[i], out, lse, pool_);
  }
  return EndLayer(context_, layer, position_, skipped_, ring_.stop());
}

}  // namespace rondo
