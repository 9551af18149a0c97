// Prefill: tasks of (KV head, tile of strips). A tile brings each block's keys and values into cache once, in the
// layout the register tiles want, for all its strips; every strip walks the tree by itself.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/aligned.h"
#include "base/thread_pool.h"
#include "kernels/cpu/attention/attend_task.h"
#include "kernels/cpu/attention/tree_stack.h"
#include "kernels/cpu/attention/visible.h"

namespace rondo::attention {
namespace {

// Strips that share one packing of a block's values. More amortise it better, though the partials of more than some 16
// no longer fit L2 beside keys and values (4: 3-5 % slower); fewer give small prompts enough tasks for every thread.
constexpr int kMaxStripsPerTile = 16;
constexpr int kMinStripsPerTile = 4;
constexpr int64_t kTasksPerThread = 4;

struct Strip {
  int64_t first_pair = 0;       // pairs of (row, head of the group), row-major
  int count = 0;                // of its lanes that are in use
  KeyRange visible[kMaxLanes];  // positions each lane may see: both ends ascend
  int64_t position[kMaxLanes] = {};
  float slopes[kMaxLanes] = {};  // if there are any
  const float* q = nullptr;
  float* slots = nullptr;
  TreeStack stack;
};

// Carves one allocation into arrays that start an odd number of lines apart, so that equal offsets into them do not
// fall into the same L1 sets.
class Carver {
 public:
  size_t Take(size_t floats) {
    const size_t at = used_;
    used_ += (floats + 15) / 16 * 16 + 16;
    return at;
  }
  size_t used() const { return used_; }

 private:
  size_t used_ = 0;
};

class Tile {
 public:
  Tile(const AttendCall& call, int32_t kv_head, int64_t first_pair, int64_t end_pair)
      : call_(call), ops_(call.ops), kv_head_(kv_head), head_dim_(call.shape.head_dim) {
    strip_count_ = static_cast<int>((end_pair - first_pair + ops_.lanes - 1) / ops_.lanes);
    padded_ = (head_dim_ + ops_.d_step - 1) / ops_.d_step * ops_.d_step;
    slot_size_ = static_cast<size_t>(padded_ + 2) * ops_.lanes + 16;
    int64_t longest = 0;
    for (const PartialNode& node : call.nodes) longest = std::max(longest, node.id.end() - node.id.begin());
    const size_t slots = static_cast<size_t>(TreeStack::Slots(longest));

    Carver carver;
    const size_t scores = carver.Take(static_cast<size_t>(kBlockTokens) * ops_.lanes);
    const size_t values = carver.Take(ops_.packed_values_size(head_dim_));
    const size_t tail = carver.Take(static_cast<size_t>(ops_.key_step) * head_dim_);
    const size_t keys = carver.Take(call.paired() ? static_cast<size_t>(kBlockTokens) * head_dim_ : 0);
    size_t q[kMaxStripsPerTile], partials[kMaxStripsPerTile];
    for (int i = 0; i < strip_count_; ++i) {
      q[i] = carver.Take(static_cast<size_t>(head_dim_) * ops_.lanes);
      partials[i] = carver.Take(slots * slot_size_);
    }
    thread_local Scratch<float> scratch;
    float* memory = scratch.Get(carver.used());
    scores_ = memory + scores;
    values_ = memory + values;
    tail_ = memory + tail;
    keys_ = memory + keys;
    for (int i = 0; i < strip_count_; ++i) {
      Strip& strip = strips_[i];
      strip.first_pair = first_pair + int64_t{i} * ops_.lanes;
      strip.count = static_cast<int>(std::min<int64_t>(ops_.lanes, end_pair - strip.first_pair));
      strip.slots = memory + partials[i];
      const float* rows[kMaxLanes];
      for (int lane = 0; lane < ops_.lanes; ++lane) {
        rows[lane] = call.queries.q + PairOf(strip, lane) * head_dim_;
        strip.position[lane] = call.queries.first_position + Pair(strip, lane) / call.group();
        strip.visible[lane] = VisibleKeys(call.mask, strip.position[lane]);
        if (call.score.slopes != nullptr)
          strip.slopes[lane] = call.score.slopes[PairOf(strip, lane) % call.shape.q_heads];
      }
      ops_.pack_queries(rows, head_dim_, call.factor(), call.paired(), memory + q[i]);
      strip.q = memory + q[i];
    }
  }

  void Run() {
    const KeyRange visible{strips_[0].visible[0].begin, Last(strips_[strip_count_ - 1]).end};
    for (const PartialNode& node : call_.nodes) {
      const BlockRange blocks = BlocksWith(visible, {node.id.begin(), node.id.end()});
      for (int64_t b = blocks.begin; b < blocks.end; ++b) AttendBlock(call_.Block(b));
      for (int i = 0; i < strip_count_; ++i) WriteNode(strips_[i], node);
    }
  }

 private:
  // Lanes past the last pair repeat it: they cost nothing extra and never widen what the strip sees.
  int64_t Pair(const Strip& strip, int lane) const { return strip.first_pair + std::min(lane, strip.count - 1); }
  int64_t PairOf(const Strip& strip, int lane) const {  // index of [count, q_heads]
    const int64_t pair = Pair(strip, lane), group = call_.group();
    return pair / group * call_.shape.q_heads + kv_head_ * group + pair % group;
  }
  const KeyRange& Last(const Strip& strip) const { return strip.visible[ops_.lanes - 1]; }

  void AttendBlock(const KvBlock& block) {
    const KeyRange rows{VisibleRows(strips_[0].visible[0], block).begin,
                        VisibleRows(Last(strips_[strip_count_ - 1]), block).end};
    if (rows.empty()) return;
    StripBlock args;
    args.scores = scores_;
    args.paired = call_.paired();
    args.head_dim = head_dim_;
    args.score = call_.score;
    Pack(block, rows, &args);
    const auto merge = [&](Strip& strip) {
      return [&](int slot) {
        float* left = strip.slots + slot * slot_size_;
        ops_.merge_strips(left, left + slot_size_, head_dim_);
      };
    };
    for (int i = 0; i < strip_count_; ++i) {
      Strip& strip = strips_[i];
      const KeyRange low = VisibleRows(strip.visible[0], block), high = VisibleRows(Last(strip), block);
      if (high.end <= low.begin) continue;
      if (args.score.slopes != nullptr) args.score.slopes = strip.slopes;
      alignas(64) int32_t first[kMaxLanes], last[kMaxLanes], distance[kMaxLanes];
      for (int lane = 0; lane < ops_.lanes; ++lane) {
        const KeyRange own = VisibleRows(strip.visible[lane], block);
        first[lane] = static_cast<int32_t>(own.begin);
        last[lane] = static_cast<int32_t>(own.end);
        if (args.score.slopes != nullptr) distance[lane] = call_.Distance(strip.position[lane], block);
      }
      args.distance = distance;
      args.first = first;
      args.last = last;
      args.q = strip.q;
      args.partial = strip.slots + strip.stack.top() * slot_size_;
      ops_.strip_block(args);
      strip.stack.Push({0, block.index}, merge(strip));
    }
  }

  // Keys and values of the block's rows that some strip sees, rounded out to whole register tiles.
  void Pack(const KvBlock& block, const KeyRange& rows, StripBlock* args) {
    const int step = ops_.key_step;
    const int begin = static_cast<int>(rows.begin) / step * step;
    const int end = (static_cast<int>(rows.end) + step - 1) / step * step;
    const int full = std::min(end, block.tokens / step * step);  // whole groups of written rows
    args->tail_begin = full < end ? full : static_cast<int>(kBlockTokens);
    const int tail = end > full ? block.tokens - full : 0;
    const std::byte* keys = call_.Keys(block, kv_head_);
    if (tail > 0) std::memset(tail_, 0, static_cast<size_t>(step) * head_dim_ * sizeof(float));
    if (call_.paired()) {
      const uint16_t* bf16 = reinterpret_cast<const uint16_t*>(keys);
      ops_.widen_keys(bf16, head_dim_, begin, full, keys_);
      if (tail > 0) ops_.widen_keys(bf16 + static_cast<size_t>(full) * head_dim_, head_dim_, 0, tail, tail_);
      args->keys = keys_;
    } else {
      args->keys = reinterpret_cast<const float*>(keys);
      if (tail > 0) {
        std::memcpy(tail_, args->keys + static_cast<size_t>(full) * head_dim_,
                    static_cast<size_t>(tail) * head_dim_ * sizeof(float));
      }
    }
    args->tail_keys = tail_;
    args->values = values_;
    args->values_finite =
        ops_.pack_values(call_.Values(block, kv_head_), call_.paired(), head_dim_, begin, end, block.tokens, values_);
  }

  void WriteNode(Strip& strip, const PartialNode& node) {
    strip.stack.Collapse([&](int slot) {
      float* left = strip.slots + slot * slot_size_;
      ops_.merge_strips(left, left + slot_size_, head_dim_);
    });
    float* out[kMaxLanes];
    const bool empty = strip.stack.depth() == 0;
    const float* m = strip.slots + static_cast<size_t>(padded_) * ops_.lanes;
    for (int lane = 0; lane < strip.count; ++lane) {
      const int64_t pair = PairOf(strip, lane);
      out[lane] = node.o + pair * head_dim_;
      node.m[pair] = empty ? kEmptyMax : m[lane];
      node.l[pair] = empty ? 0.0f : m[ops_.lanes + lane];
      if (empty) std::fill_n(out[lane], head_dim_, 0.0f);
    }
    if (!empty) ops_.unpack_strip(strip.slots, head_dim_, strip.count, out);
    strip.stack.Clear();
  }

  const AttendCall& call_;
  const AttentionOps& ops_;
  const int32_t kv_head_;
  const int head_dim_;
  int strip_count_ = 0;
  int padded_ = 0;
  size_t slot_size_ = 0;
  float* scores_ = nullptr;
  float* values_ = nullptr;
  float* tail_ = nullptr;
  float* keys_ = nullptr;
  Strip strips_[kMaxStripsPerTile];
};

}  // namespace

void AttendManyRows(const AttendCall& call, ThreadPool& pool) {
  const int64_t pairs = call.queries.count * call.group();
  const int64_t strips = (pairs + call.ops.lanes - 1) / call.ops.lanes * call.shape.kv_heads;
  const int64_t per_tile =
      std::clamp<int64_t>(strips / (kTasksPerThread * pool.threads()), kMinStripsPerTile, kMaxStripsPerTile);
  const int64_t tile = per_tile * call.ops.lanes;
  const int64_t tiles = (pairs + tile - 1) / tile;
  pool.Run(tiles * call.shape.kv_heads, [&](int64_t task, int) {
    const int32_t kv_head = static_cast<int32_t>(task % call.shape.kv_heads);
    // The last rows see the most keys: the long tasks go first, so that no thread is left with one at the end.
    const int64_t first = (tiles - 1 - task / call.shape.kv_heads) * tile;
    Tile(call, kv_head, first, std::min(pairs, first + tile)).Run();
  });
}

}  // namespace rondo::attention
