// The folding of partial nodes against the definition of the tree, symbolically: kernels whose partials are
// expressions.
#include "kernels/fold_nodes.h"

#include <string>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"
#include "gtest/gtest.h"

namespace rondo {
namespace {

// Merge writes "(left right)"; a partial's o points at the index of its expression.
class SymbolicKernels : public AttentionKernels {
 public:
  std::string_view name() const override { return "symbolic"; }
  void Attend(const AttentionShape&, const QueryRows&, absl::Span<const KvBlock>, const MaskSpec&,
              absl::Span<const PartialNode>, ThreadPool&) const override {
    RONDO_CHECK(false);
  }
  void Finish(const AttentionShape&, int64_t, const PartialNode&, float*, float*, ThreadPool&) const override {
    RONDO_CHECK(false);
  }
  void Merge(const AttentionShape&, int64_t, const PartialNode& left, const PartialNode& right,
             ThreadPool&) const override {
    Text(left) = "(" + Text(left) + " " + Text(right) + ")";
  }

  PartialNode Add(NodeId id, std::string text) {
    texts_.push_back(std::move(text));
    slots_.push_back(static_cast<float>(texts_.size() - 1));
    return {id, &slots_.back(), nullptr, nullptr};
  }
  std::string& Text(const PartialNode& node) const { return texts_[static_cast<size_t>(*node.o)]; }
  void Clear() {
    texts_.clear();
    slots_.clear();
    slots_.reserve(64);
  }

 private:
  mutable std::vector<std::string> texts_;
  std::vector<float> slots_;
};

// The definition: the tree over the blocks of `present`, where a side without any is left out.
std::string Tree(NodeId id, uint32_t present) {
  if (id.level == 0) return present >> id.index & 1 ? std::to_string(id.index) : "";
  const std::string left = Tree({id.level - 1, id.index * 2}, present);
  const std::string right = Tree({id.level - 1, id.index * 2 + 1}, present);
  if (left.empty() || right.empty()) return left + right;
  return "(" + left + " " + right + ")";
}

TEST(FoldNodes, EqualsTheTreeForEverySetOfBlocks) {
  ThreadPool pool(1);
  SymbolicKernels kernels;
  // Bits of `cuts` divide a run of blocks between owners, who bring the complete subtrees of their parts.
  for (uint32_t present = 1; present < 512; ++present) {
    for (uint32_t cuts = 0; cuts < 512; cuts += (present % 7 == 0 ? 1 : 37)) {
      kernels.Clear();
      std::vector<PartialNode> nodes;
      for (int64_t begin = 0; begin < 9;) {
        int64_t end = begin + 1;
        if (present >> begin & 1) {
          while (end < 9 && (present >> end & 1) && !(cuts >> end & 1)) ++end;
          for (NodeId id : DyadicNodes({begin, end}, 0)) nodes.push_back(kernels.Add(id, Tree(id, present)));
        }
        begin = end;
      }
      const PartialNode root = FoldNodes(kernels, {}, 1, absl::MakeSpan(nodes), pool);
      ASSERT_EQ(kernels.Text(root), Tree({4, 0}, present)) << present << " cut at " << cuts;
    }
  }
}

TEST(FoldNodes, ReachesAcrossLargeIndices) {
  ThreadPool pool(1);
  SymbolicKernels kernels;
  kernels.Clear();
  std::vector<PartialNode> nodes = {kernels.Add({0, 3}, "a"), kernels.Add({20, 5}, "b"), kernels.Add({0, 6 << 20}, "c"),
                                    kernels.Add({40, 9}, "d")};
  const PartialNode root = FoldNodes(kernels, {}, 1, absl::MakeSpan(nodes), pool);
  EXPECT_EQ(kernels.Text(root), "((a (b c)) d)");
  EXPECT_EQ(root.id, (NodeId{44, 0}));
}

TEST(CommonAncestor, IsTheLowestNodeAboveBoth) {
  EXPECT_EQ(CommonAncestor({0, 2}, {0, 3}), (NodeId{1, 1}));
  EXPECT_EQ(CommonAncestor({0, 3}, {0, 4}), (NodeId{3, 0}));
  EXPECT_EQ(CommonAncestor({3, 0}, {0, 9}), (NodeId{4, 0}));
  EXPECT_EQ(CommonAncestor({2, 1}, {2, 1}), (NodeId{2, 1}));
}

}  // namespace
}  // namespace rondo
