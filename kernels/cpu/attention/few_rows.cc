// Decode: tasks of (KV head, a few blocks), then one more pass that joins their partials into the nodes.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/aligned.h"
#include "base/bf16.h"
#include "base/fp_env.h"
#include "base/thread_pool.h"
#include "kernels/cpu/attention/attend_task.h"
#include "kernels/cpu/attention/tree_stack.h"
#include "kernels/cpu/attention/visible.h"

namespace rondo::attention {
namespace {

// A task's subtree has up to 2^3 blocks: the longer a thread reads in one place the better, as long as every thread
// gets several tasks. Which it is never shows in the bits.
constexpr int kTaskLevel = 3;
constexpr int64_t kTasksPerThread = 4;
// Partials that one thread joins in the time it takes to hand them to others; in floats.
constexpr size_t kJoinAlone = 1 << 15;

// Partials of all (row, head) pairs of one KV head, in consecutive slots.
class Slots {
 public:
  Slots(const AttentionOps& ops, int pairs, int head_dim) : ops_(ops), pairs_(pairs), head_dim_(head_dim) {}
  size_t size() const { return (static_cast<size_t>(pairs_) * (head_dim_ + 2) + 15) / 16 * 16; }  // floats
  void set_memory(float* memory) { memory_ = memory; }
  float* o(int slot) const { return memory_ + slot * size(); }
  float* m(int slot) const { return o(slot) + static_cast<size_t>(pairs_) * head_dim_; }
  float* l(int slot) const { return m(slot) + pairs_; }
  void Merge(int slot) const {
    const int next = slot + 1;
    ops_.merge_rows(pairs_, head_dim_, o(slot), m(slot), l(slot), o(next), m(next), l(next));
  }

 private:
  const AttentionOps& ops_;
  int pairs_;
  int head_dim_;
  float* memory_ = nullptr;
};

// One task's subtree.
struct Subtree {
  NodeId id;
  size_t node = 0;  // which of call.nodes it lies in
};

// What a call needs beside its answer. Kept by each calling thread: a token calls once per layer.
struct Workspace {
  std::vector<Subtree> subtrees;
  Scratch<float> q;
  Scratch<float> partials;
};

class FewRows {
 public:
  FewRows(const AttendCall& call, int threads, Workspace& workspace)
      : call_(call),
        rows_(static_cast<int>(call.queries.count)),
        pairs_(rows_ * call.group()),
        head_dim_(call.shape.head_dim),
        slots_(call.ops, pairs_, head_dim_),
        workspace_(workspace),
        subtrees_(workspace.subtrees) {
    subtrees_.clear();
    visible_ = VisibleKeys(call.mask, call.queries.first_position, call.queries.first_position + rows_);
    const int64_t blocks = call.blocks().end - call.blocks().begin;
    int task_level = kTaskLevel;
    while (task_level > 0 && (blocks >> task_level) * call.shape.kv_heads < kTasksPerThread * threads) --task_level;
    for (size_t n = 0; n < call.nodes.size(); ++n) {
      const NodeId node = call.nodes[n].id;
      const int level = std::min(node.level, task_level);
      const BlockRange seen = BlocksWith(visible_, {node.begin(), node.end()});
      if (seen.empty()) continue;
      for (int64_t i = seen.begin >> level; i <= (seen.end - 1) >> level; ++i) subtrees_.push_back({{level, i}, n});
    }
  }

  void Run(ThreadPool& pool) {
    ScaleQueries();
    const int64_t subtrees = static_cast<int64_t>(subtrees_.size());
    const int64_t kv_heads = call_.shape.kv_heads;
    const size_t floats = subtrees_.size() * kv_heads * slots_.size();
    partials_ = workspace_.partials.Get(floats);
    const int64_t tasks = subtrees * kv_heads;
    pool.Run(tasks, [&](int64_t task, int) {
      // The task this thread is likely to get next, to fetch its first keys meanwhile.
      const int64_t next = std::min(task + pool.threads(), tasks - 1);
      const KvBlock& block = call_.Block(FirstBlock(subtrees_[static_cast<size_t>(next % subtrees)]));
      AttendSubtree(static_cast<size_t>(task % subtrees), static_cast<int32_t>(task / subtrees),
                    call_.Keys(block, static_cast<int32_t>(next / subtrees)));
    });
    if (floats < kJoinAlone) {
      const ScopedComputeFpEnv fp_env;
      for (int32_t h = 0; h < kv_heads; ++h) JoinNodes(h);
    } else {
      pool.Run(kv_heads, [&](int64_t kv_head, int) { JoinNodes(static_cast<int32_t>(kv_head)); });
    }
  }

 private:
  const float* ScaledQueries(int32_t kv_head) const { return q_ + static_cast<size_t>(kv_head) * pairs_ * head_dim_; }

  // Pairs of one KV head side by side: [kv_heads][rows * group][head_dim].
  void ScaleQueries() {
    const AttentionShape& shape = call_.shape;
    const int group = call_.group();
    q_ = workspace_.q.Get(static_cast<size_t>(shape.kv_heads) * pairs_ * head_dim_);
    const ScopedComputeFpEnv fp_env;
    for (int32_t h = 0; h < shape.kv_heads; ++h) {
      float* to = q_ + static_cast<size_t>(h) * pairs_ * head_dim_;
      for (int row = 0; row < rows_; ++row) {
        const float* from = call_.queries.q + (int64_t{row} * shape.q_heads + h * group) * head_dim_;
        for (int i = 0; i < group * head_dim_; ++i) {
          const float x = from[i] * call_.factor();
          *to++ = call_.paired() ? Bf16ToFloat(FloatToBf16(x)) : x;
        }
      }
    }
  }

  float* Partial(size_t subtree, int32_t kv_head) const {
    return partials_ + (subtree * call_.shape.kv_heads + kv_head) * slots_.size();
  }

  int64_t FirstBlock(const Subtree& subtree) const {
    return BlocksWith(visible_, {subtree.id.begin(), subtree.id.end()}).begin;
  }

  // `then` are the keys to fetch when those of the subtree are all read.
  void AttendSubtree(size_t index, int32_t kv_head, const std::byte* then) {
    const NodeId id = subtrees_[index].id;
    const int group = call_.group();
    Slots slots = slots_;
    const size_t memory = TreeStack::Slots(id.end() - id.begin()) * slots.size();
    thread_local Scratch<float> scratch;
    slots.set_memory(scratch.Get(memory + call_.ops.few_rows_scratch(rows_, group, head_dim_)));
    TreeStack stack;
    const auto merge = [&](int slot) { slots.Merge(slot); };
    ScoreTransform score = call_.score;
    if (score.slopes != nullptr) score.slopes += kv_head * group;
    const BlockRange seen = BlocksWith(visible_, {id.begin(), id.end()});
    for (int64_t b = seen.begin; b < seen.end; ++b) {
      const KvBlock& block = call_.Block(b);
      int32_t first[8], last[8], distance[8];
      bool any = false;
      for (int row = 0; row < rows_; ++row) {
        const KeyRange rows = VisibleRows(VisibleKeys(call_.mask, call_.queries.first_position + row), block);
        first[row] = static_cast<int32_t>(rows.begin);
        last[row] = static_cast<int32_t>(rows.end);
        any |= !rows.empty();
        if (score.slopes != nullptr) distance[row] = call_.Distance(call_.queries.first_position + row, block);
      }
      if (!any) continue;
      const int slot = stack.top();
      call_.ops.few_rows_block({.q = ScaledQueries(kv_head),
                                .keys = call_.Keys(block, kv_head),
                                .values = call_.Values(block, kv_head),
                                .next_keys = b + 1 < seen.end ? call_.Keys(call_.Block(b + 1), kv_head) : then,
                                .paired = call_.paired(),
                                .tokens = block.tokens,
                                .head_dim = head_dim_,
                                .rows = rows_,
                                .group = group,
                                .first = first,
                                .last = last,
                                .score = score,
                                .distance = distance,
                                .scratch = slots.o(0) + memory,
                                .o = slots.o(slot),
                                .m = slots.m(slot),
                                .l = slots.l(slot)});
      stack.Push({0, b}, merge);
    }
    stack.Collapse(merge);
    float* out = Partial(index, kv_head);
    if (stack.depth() > 0) {
      std::memcpy(out, slots.o(0), slots.size() * sizeof(float));
    } else {
      std::memset(out, 0, slots.size() * sizeof(float));  // l = 0: the identity
    }
  }

  void JoinNodes(int32_t kv_head) const {
    Slots slots = slots_;
    thread_local Scratch<float> scratch;
    slots.set_memory(scratch.Get(TreeStack::Slots(std::max<int64_t>(1, subtrees_.size())) * slots.size()));
    const auto merge = [&](int slot) { slots.Merge(slot); };
    size_t next = 0;
    for (size_t n = 0; n < call_.nodes.size(); ++n) {
      TreeStack stack;
      for (; next < subtrees_.size() && subtrees_[next].node == n; ++next) {
        std::memcpy(slots.o(stack.top()), Partial(next, kv_head), slots.size() * sizeof(float));
        stack.Push(subtrees_[next].id, merge);
      }
      stack.Collapse(merge);
      WriteNode(call_.nodes[n], kv_head, stack.depth() > 0, slots);
    }
  }

  void WriteNode(const PartialNode& node, int32_t kv_head, bool any, const Slots& slots) const {
    const int group = call_.group();
    for (int pair = 0; pair < pairs_; ++pair) {
      const int64_t to = int64_t{pair / group} * call_.shape.q_heads + kv_head * group + pair % group;
      const bool seen = any && slots.l(0)[pair] != 0;
      node.m[to] = seen ? slots.m(0)[pair] : kEmptyMax;
      node.l[to] = seen ? slots.l(0)[pair] : 0.0f;
      if (seen) {
        std::memcpy(node.o + to * head_dim_, slots.o(0) + static_cast<size_t>(pair) * head_dim_,
                    head_dim_ * sizeof(float));
      } else {
        std::fill_n(node.o + to * head_dim_, head_dim_, 0.0f);
      }
    }
  }

  const AttendCall& call_;
  const int rows_;
  const int pairs_;
  const int head_dim_;
  Slots slots_;
  KeyRange visible_;
  Workspace& workspace_;
  std::vector<Subtree>& subtrees_;
  float* q_ = nullptr;
  float* partials_ = nullptr;
};

}  // namespace

void AttendFewRows(const AttendCall& call, ThreadPool& pool) {
  thread_local Workspace workspace;
  FewRows(call, pool.threads(), workspace).Run(pool);
}

}  // namespace rondo::attention
