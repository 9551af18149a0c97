#include "worker/ring/pass_kv.h"

#include <algorithm>

#include "base/check.h"
#include "worker/ring/agreement.h"

namespace rondo {
namespace {

size_t OwnedBytes(absl::Span<const BlockRange> owned, size_t block_bytes) {
  int64_t blocks = 0;
  for (const BlockRange& run : owned) blocks += run.size();
  return static_cast<size_t>(blocks) * block_bytes;
}

}  // namespace

PassKv::PassKv(RingContext& context) : context_(context), pool_(context.kv.shape(), kBlockTokens) {
  buffer_bytes_ = ReceiveBufferBytes(context.kv.shape(), context.plan);
  if (buffer_bytes_ == 0) return;
  for (AlignedArray<std::byte>& buffer : buffers_) buffer = MakeAligned<std::byte>(buffer_bytes_);
}

size_t PassKv::ReceiveBufferBytes(const AttentionShape& shape, const ShardPlan& plan) {
  if (plan.world() == 1) return 0;
  int64_t most = 0;
  for (int rank = 0; rank < plan.world(); ++rank) most = std::max(most, plan.OwnedBlockCount(plan.tokens(), rank));
  return static_cast<size_t>(most) * KvBlockBytes(shape);
}

void PassKv::Begin(int64_t chunk) {
  chunk_ = context_.plan.Chunk(chunk);
  runs_ = context_.plan.Rows(chunk, context_.rank());
  rows_ = 0;
  size_t strips = 0;
  for (const PositionRun& run : runs_) {
    for (int64_t begin = run.begin; begin < run.end;) {
      const int64_t end = std::min(run.end, (BlockOf(begin) + 1) * kBlockTokens);
      if (strips == strips_.size()) strips_.emplace_back();
      strips_[strips].first_position = begin;
      strips_[strips].first_row = rows_;
      strips_[strips].forest.Reset(end - begin);
      rows_ += end - begin;
      begin = end;
      ++strips;
    }
  }
  strips_.resize(strips);
  owned_.resize(context_.ring_size);
  for (int rank = 0; rank < context_.ring_size; ++rank) owned_[rank] = context_.plan.OwnedBlocks(chunk_.end, rank);
}

absl::Status PassKv::Run(int32_t layer, absl::Span<const PositionRun> runs, const float* q, const float* k,
                         const float* v, float* out) {
  RONDO_CHECK(TotalRows(runs) == rows_);
  context_.kv.Store(layer, runs, k, v);
  Held held = Own(layer);
  for (int step = 0; step < context_.ring_size; ++step) {
    const bool last = step + 1 == context_.ring_size;
    absl::StatusOr<Posted> posted = Posted{};
    if (!last) posted = PassOn(held, step);
    if (!posted.ok()) return posted.status();
    Attend(held, last, q, out);
    if (last) break;
    absl::StatusOr<Held> next = Receive(*posted, held, step);
    if (!next.ok()) return next.status();
    held = *next;
  }
  return EndLayer(layer, out);
}

PassKv::Held PassKv::Own(int32_t layer) {
  Held held;
  held.header = context_.Header(RingHeader::kBlocks, layer, chunk_.begin);
  held.blocks = context_.kv.Owned(layer, chunk_.end);
  skipped_ = false;
  stop_ = context_.rank() == 0 && context_.Cancelling();
  if (stop_) held.header.flags |= RingHeader::kStop;
  return held;
}

absl::StatusOr<PassKv::Posted> PassKv::PassOn(const Held& held, int step) {
  const int ranks = context_.ring_size;
  const int to = (context_.rank() + 1) % ranks;
  const int from = (context_.rank() + ranks - 1) % ranks;
  sent_header_ = held.header;
  sent_header_.step = step + 1;
  absl::Span<const std::byte> blocks = held.blocks;
  if (context_.Cancelling()) {
    sent_header_.flags |= RingHeader::kSkipped;
    blocks = {};
  }
  sent_header_.payload_bytes = blocks.size();
  const absl::StatusOr<Transport::Pending> header =
      context_.transport.SendRecv(to, std::as_const(sent_header_).bytes(), from, received_header_.bytes());
  if (!header.ok()) return header.status();
  const absl::StatusOr<Transport::Pending> payload =
      context_.transport.SendRecv(to, blocks, from, {buffers_[step % 2].get(), buffer_bytes_});
  if (!payload.ok()) return payload.status();
  context_.stats.sent_bytes += sizeof(RingHeader) + blocks.size();
  return Posted{*header, *payload};
}

void PassKv::Attend(const Held& held, bool last, const float* q, float* out) {
  ScopedTimer timer(context_.stats.compute);
  const AttentionShape& shape = context_.kv.shape();
  const int64_t row_size = int64_t{shape.q_heads} * shape.head_dim;
  if ((held.header.flags & RingHeader::kSkipped) != 0) skipped_ = true;
  if (!skipped_) {
    ViewBlocks(owned_[held.header.origin], chunk_.end, held.blocks.data(), KvBlockBytes(shape), block_runs_);
  }
  for (Strip& strip : strips_) {
    skipped_ = skipped_ || context_.Cancelling();
    if (skipped_) {
      strip.forest.Discard(pool_);
      continue;
    }
    AttendStrip(strip, q + strip.first_row * row_size);
    if (last) {
      strip.forest.Finish(context_.kernels, shape, out + strip.first_row * row_size, pool_, context_.threads);
    }
  }
}

void PassKv::AttendStrip(Strip& strip, const float* q) {
  const AttentionShape& shape = context_.kv.shape();
  const QueryRows queries{q, strip.first_position, strip.forest.count()};
  const int64_t visible_end = BlockOf(strip.first_position + strip.forest.count() - 1) + 1;
  for (const std::vector<KvBlock>& run : block_runs_) {
    const int64_t visible = std::min<int64_t>(run.size(), visible_end - run.front().index);
    if (visible <= 0) break;
    nodes_.clear();
    for (const NodeId id : DyadicNodes({run.front().index, run.front().index + visible})) {
      nodes_.push_back(pool_.Acquire(id));
    }
    context_.kernels.Attend(shape, queries, absl::MakeConstSpan(run).subspan(0, visible), MaskSpec{}, nodes_,
                            context_.threads);
    for (const PartialNode& node : nodes_) {
      strip.forest.Insert(node, context_.kernels, shape, pool_, context_.threads);
    }
  }
}

absl::StatusOr<PassKv::Held> PassKv::Receive(const Posted& posted, const Held& previous, int step) {
  ScopedTimer timer(context_.stats.exposed_wait);
  ++context_.stats.waits;
  const int ranks = context_.ring_size;
  const int from = (context_.rank() + ranks - 1) % ranks;
  const absl::Time deadline = context_.Deadline();
  const absl::StatusOr<size_t> header_bytes = context_.transport.Wait(posted.header, deadline);
  if (!header_bytes.ok()) return header_bytes.status();
  const absl::StatusOr<size_t> block_bytes = context_.transport.Wait(posted.blocks, deadline);
  if (!block_bytes.ok()) return block_bytes.status();
  RingHeader expected = previous.header;
  expected.step = step + 1;
  expected.origin = (context_.rank() + ranks - step - 1) % ranks;
  expected.payload_bytes = OwnedBytes(owned_[expected.origin], KvBlockBytes(context_.kv.shape()));
  if (*header_bytes != sizeof(RingHeader)) received_header_.magic = 0;
  if (absl::Status due = CheckHeader(expected, received_header_, from, *block_bytes); !due.ok()) {
    context_.transport.Abort(due);
    return due;
  }
  if (received_header_.origin == 0 && (received_header_.flags & RingHeader::kStop) != 0) stop_ = true;
  if (received_header_.flags != 0) context_.peer_cancelled = true;
  return Held{received_header_, {buffers_[step % 2].get(), *block_bytes}};
}

absl::Status PassKv::EndLayer(int32_t layer, float* out) {
  if (skipped_) {
    const AttentionShape& shape = context_.kv.shape();
    std::fill_n(out, rows_ * shape.q_heads * shape.head_dim, 0.0f);
  }
  if (context_.ring_size == 1) return context_.Cancelling() ? context_.Cancelled() : absl::OkStatus();
  if (stop_) return context_.Cancelled();
  if (layer + 1 < context_.kv.layers()) return absl::OkStatus();
  return AgreeToGoOn(context_, layer, chunk_.begin, skipped_);
}

}  // namespace rondo
