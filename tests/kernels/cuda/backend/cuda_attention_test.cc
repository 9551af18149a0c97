// The attention seam on one GPU: which kernel it takes, that both give the same nodes wherever those lie, and what it
// refuses. The GPU is the emulator.
#include "kernels/cuda/backend/cuda_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/bf16.h"
#include "base/thread_pool.h"
#include "tests/kernels/cuda/backend/emulated_gpu.h"
#include "worker/ring/node_forest.h"

namespace rondo::cuda {
namespace {

// Queries, and keys of `blocks` KV blocks, in the memory of a GPU.
class Rows {
 public:
  Rows(EmulatedGpu& gpu, int64_t count, int64_t first_position, int64_t first_block, int64_t blocks)
      : q_(count * shape_.q_heads * shape_.head_dim), first_position_(first_position), count_(count) {
    std::mt19937 random(static_cast<unsigned>(count + first_position));
    std::normal_distribution<float> normal;
    for (float& x : q_) x = normal(random);
    std::vector<uint16_t> block(KvBlockBytes(shape_) / sizeof(uint16_t));
    for (int64_t i = 0; i < blocks; ++i) {
      for (uint16_t& x : block) x = FloatToBf16(normal(random));
      keys_.emplace_back(gpu);
      keys_.back().Grow(KvBlockBytes(shape_));
      gpu.Copy(keys_.back().data(), block.data(), KvBlockBytes(shape_));
      run_.push_back({keys_.back().data(), first_block + i, static_cast<int32_t>(rondo::kBlockTokens)});
    }
  }

  const AttentionShape& shape() const { return shape_; }
  std::vector<NodeId> Ids() const {
    return DyadicNodes({run_.front().index, run_.back().index + 1}, shape_.leaf_level);
  }

  // The nodes' floats one after the other. Computed into host memory, where m and l may lie apart from o, or into the
  // GPU's.
  enum class Where { kHost, kHostApart, kDevice };
  std::vector<float> Attend(EmulatedGpu& gpu, RowKind kind, const MaskSpec& mask, Where where) const {
    const CudaAttention kernels(gpu);
    ThreadPool pool(1);
    const std::vector<NodeId> ids = Ids();
    const size_t size = NodeFloats(shape_, count_);
    const size_t states = static_cast<size_t>(count_) * shape_.q_heads;
    std::vector<float> floats(ids.size() * size, std::numeric_limits<float>::quiet_NaN());
    TensorBuffer device(gpu);
    std::vector<float> apart(2 * states * ids.size());
    std::vector<PartialNode> nodes;
    float* at = floats.data();
    if (where == Where::kDevice) at = reinterpret_cast<float*>(device.Grow(floats.size() * sizeof(float)));
    for (const NodeId id : ids) {
      nodes.push_back(NodeAt(shape_, count_, id, at));
      at += size;
      if (where != Where::kHostApart) continue;
      nodes.back().m = apart.data() + 2 * states * (nodes.size() - 1) + states;
      nodes.back().l = nodes.back().m - states;
    }
    kernels.Attend(shape_, {q_.data(), first_position_, count_, kind}, run_, mask, nodes, pool);
    if (where == Where::kDevice) gpu.Copy(floats.data(), device.data(), floats.size() * sizeof(float));
    if (where == Where::kHostApart) {
      for (size_t i = 0; i < nodes.size(); ++i) {
        float* const m = floats.data() + i * size + size - 2 * states;
        std::copy_n(nodes[i].m, states, m);
        std::copy_n(nodes[i].l, states, m + states);
      }
    }
    return floats;
  }

 private:
  AttentionShape shape_{
      .q_heads = 4, .kv_heads = 2, .head_dim = 64, .kv_type = KvType::kBf16, .scale = 0.125f, .leaf_level = 1};
  std::vector<float> q_;
  std::vector<TensorBuffer> keys_;
  std::vector<KvBlock> run_;
  int64_t first_position_, count_;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Nodes of several levels, rows of several sequences, windows; wherever the nodes are to lie.
TEST(CudaAttentionTest, DrawnRowsTakeTheKernelForFewRowsAndHaveItsNodes) {
  struct Case {
    const char* what;
    int64_t rows, first_position, first_block, blocks;
    MaskSpec mask;
    size_t segments;  // of packed sequences
  };
  const std::vector<int64_t> starts = {0, 300, 1021, 1021, 1023, 1400};
  const Case cases[] = {
      {"one row", 1, 1500, 0, 6, {}, 1},
      {"a run that begins inside a leaf", 3, 1500, 1, 5, {}, 1},
      {"a window", 5, 1300, 2, 4, {.window = 200}, 1},
      {"packed sequences", 6, 1019, 0, 6, {.sequence_starts = starts}, 3},
      {"rows behind all sequences", 4, 1398, 0, 6, {.sequence_starts = starts}, 2},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    EmulatedGpu gpu({}, 1);  // the same leaves for both kinds, so that bits can be compared
    const Rows rows(gpu, c.rows, c.first_position, c.first_block, c.blocks);
    const std::vector<float> given = rows.Attend(gpu, RowKind::kGiven, c.mask, Rows::Where::kDevice);
    EXPECT_EQ(gpu.launched().attend.size(), static_cast<size_t>(c.rows));
    EXPECT_EQ(gpu.launched().attend_launches, static_cast<int64_t>(c.segments));
    EXPECT_EQ(gpu.launched().decode.size(), 0u);
    EXPECT_GT(std::count_if(given.begin(), given.end(), [](float x) { return x != 0; }), 0);
    for (const Rows::Where where : {Rows::Where::kDevice, Rows::Where::kHost, Rows::Where::kHostApart}) {
      EXPECT_TRUE(SameBits(rows.Attend(gpu, RowKind::kDrawn, c.mask, where), given)) << static_cast<int>(where);
    }
    EXPECT_EQ(gpu.launched().attend.size(), static_cast<size_t>(c.rows));
    EXPECT_EQ(gpu.launched().decode.size(), 3 * static_cast<size_t>(c.rows));
    EXPECT_EQ(gpu.launched().decode_launches, 3);  // all sequences in one
  }
}

TEST(CudaAttentionTest, RefusesWhatItHasNoKernelFor) {
  EmulatedGpu gpu;
  const CudaAttention kernels(gpu);
  AttentionShape shape{.q_heads = 1, .kv_heads = 1, .head_dim = 64, .kv_type = KvType::kBf16, .scale = 1};
  EXPECT_TRUE(kernels.Supports(shape).ok());
  shape.head_dim = 72;
  EXPECT_EQ(kernels.Supports(shape).message(),
            "head_dim: 72 has no GPU kernel; those for 64, 80, 96, 128 and 256 exist");
  shape.head_dim = 64;
  shape.kv_type = KvType::kF32;
  EXPECT_EQ(kernels.Supports(shape).message(), "kv_type: f32 is not for GPUs, which keep keys and values in bf16");
}

}  // namespace
}  // namespace rondo::cuda
