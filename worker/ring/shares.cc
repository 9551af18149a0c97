#include "worker/ring/shares.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "worker/ring/deal.h"

namespace rondo {
namespace {

constexpr int64_t kLeastGrain = 8;  // rows from which on kernels take queries in lanes

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
int64_t CeilDiv(int64_t a, int64_t b) { return -FloorDiv(-a, b); }

// Consecutive positions that are planned on their own: a sequence, or the rows before position 0.
struct Segment {
  PositionRun positions;
  bool zigzag = false;
};

// Zigzag balances what grows with the position. Under a window short against a rank's share every row costs about the
// same (with contiguous runs the first rank is idle for at most window / (2 * tokens) of the time) and contiguous runs
// see only their neighbour.
bool IsZigzag(const MaskSpec& mask, int64_t tokens, int world) {
  if (!mask.causal) return false;
  return mask.window == 0 || mask.window > tokens / (2 * world);
}

std::vector<Segment> Segments(const RingProblem& p, int world) {
  std::vector<Segment> segments;
  const int64_t first = p.kv_tokens - p.q_tokens;
  if (first < 0) segments.push_back({{first, 0}, false});
  const auto add = [&](int64_t begin, int64_t end) {
    if (end > begin) segments.push_back({{begin, end}, IsZigzag(p.mask, end - begin, world)});
  };
  const absl::Span<const int64_t> starts = p.mask.sequence_starts;
  if (starts.empty()) add(0, p.kv_tokens);
  for (size_t i = 1; i < starts.size(); ++i) add(starts[i - 1], starts[i]);
  return segments;
}

// Owners of units of `unit` positions, from unit `first` on. A unit belongs to the segment of its first position.
struct Dealt {
  int64_t unit = 1;
  int64_t first = 0;
  std::vector<int> owners;
};

Dealt Deal(const RingProblem& p, int world, absl::Span<const Segment> segments, PositionRun range, int64_t unit) {
  Dealt dealt;
  dealt.unit = unit;
  dealt.first = FloorDiv(range.begin, unit);
  std::vector<double> load(world, 0);
  std::vector<int> order(world);
  int64_t next = dealt.first;
  for (const Segment& segment : segments) {
    const int64_t end = CeilDiv(std::min(segment.positions.end, range.end), unit);
    if (end <= next) continue;
    // Who has least so far comes first: the units of short sequences go round, and sums stay even.
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return load[a] < load[b]; });
    (segment.zigzag ? DealZigzag : DealContiguous)(end - next, order, dealt.owners);
    for (; next < end; ++next) {
      const int64_t position = next * unit - segment.positions.begin;
      double sees = static_cast<double>(p.mask.causal ? position + unit : segment.positions.size());
      if (p.mask.window > 0) sees = std::min(sees, static_cast<double>(p.mask.window));
      load[dealt.owners[next - dealt.first]] += std::max(sees, 1.0);
    }
  }
  return dealt;
}

std::vector<std::vector<PositionRun>> RunsByRank(const Dealt& dealt, int world, PositionRun range, int64_t shift) {
  std::vector<std::vector<PositionRun>> runs(world);
  for (size_t i = 0; i < dealt.owners.size(); ++i) {
    const int64_t begin = (dealt.first + static_cast<int64_t>(i)) * dealt.unit;
    const PositionRun run{std::max(begin, range.begin) + shift, std::min(begin + dealt.unit, range.end) + shift};
    std::vector<PositionRun>& of = runs[dealt.owners[i]];
    if (!of.empty() && of.back().end == run.begin) {
      of.back().end = run.end;
    } else {
      of.push_back(run);
    }
  }
  return runs;
}

// As coarse as the balance allows, so that strips are whole blocks where there are many rows.
int64_t Grain(int64_t q_tokens, int world) {
  int64_t grain = kBlockTokens;
  while (grain > kLeastGrain && q_tokens < grain * 2 * world) grain /= 2;
  return grain;
}

}  // namespace

RingShares PlanShares(const RingProblem& p, int world) {
  RONDO_CHECK(world >= 1);
  RingShares shares;
  const std::vector<Segment> segments = Segments(p, world);
  const PositionRun kv{0, p.kv_tokens};
  const PositionRun q{p.kv_tokens - p.q_tokens, p.kv_tokens};
  shares.kv_rows = RunsByRank(Deal(p, world, segments, kv, kBlockTokens << p.shape.leaf_level), world, kv, 0);
  const int64_t grain = p.q_tokens == p.kv_tokens ? kBlockTokens : Grain(p.q_tokens, world);
  shares.q_rows = RunsByRank(Deal(p, world, segments, q, grain), world, q, -q.begin);
  return shares;
}

RingLayout ProblemLayout(const RingProblem& p, const RingShares& shares) {
  std::vector<std::vector<PositionRun>> rows = shares.q_rows;
  for (std::vector<PositionRun>& runs : rows) {
    for (PositionRun& run : runs) {
      run.begin += p.kv_tokens - p.q_tokens;
      run.end += p.kv_tokens - p.q_tokens;
    }
  }
  std::vector<std::vector<BlockRange>> blocks(rows.size());
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    for (const PositionRun& run : shares.kv_rows[rank]) {
      blocks[rank].push_back({BlockOf(run.begin), BlocksFor(run.end)});
    }
  }
  return MakeLayout(p.mask, p.kv_tokens, rows, std::move(blocks), p.shape.leaf_level);
}

AttentionShape FullShape(const RingProblem& p) {
  AttentionShape shape = p.shape;
  if (p.sinks != nullptr) shape.score.sinks = p.sinks;
  return shape;
}

}  // namespace rondo
