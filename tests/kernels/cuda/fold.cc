#include "tests/kernels/cuda/fold.h"

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/check.h"

namespace rondo::cuda {
namespace {

// 2^d of an integer d <= 0.
float Weight(float d) { return d < -126 ? 0.0f : std::ldexp(1.0f, static_cast<int>(d)); }

}  // namespace

void Merge(int head_dim, Node* left, const Node& right) {
  for (size_t i = 0; i < left->m.size(); ++i) {
    if (right.l[i] == 0) continue;
    const auto copy_right = [&] {
      left->m[i] = right.m[i];
      left->l[i] = right.l[i];
      for (int d = 0; d < head_dim; ++d) left->o[i * head_dim + d] = right.o[i * head_dim + d];
    };
    if (left->l[i] == 0) {
      copy_right();
      continue;
    }
    const float m = std::max(left->m[i], right.m[i]);
    const float a = Weight(left->m[i] - m);
    const float b = Weight(right.m[i] - m);
    left->m[i] = m;
    left->l[i] = std::fma(left->l[i], a, right.l[i] * b);
    for (int d = 0; d < head_dim; ++d) {
      float& o = left->o[i * head_dim + d];
      o = std::fma(o, a, right.o[i * head_dim + d] * b);
    }
  }
}

Node FoldToRoot(int head_dim, std::vector<Node> nodes) {
  RONDO_CHECK(!nodes.empty());
  std::map<NodeId, Node> level_by_level;
  for (Node& node : nodes) level_by_level.emplace(node.id, std::move(node));
  while (level_by_level.size() > 1) {
    const auto lowest = level_by_level.begin();  // of the lowest level, the leftmost
    Node node = std::move(lowest->second);
    level_by_level.erase(lowest);
    const auto sibling = level_by_level.find(node.id.sibling());
    if (sibling != level_by_level.end()) {
      RONDO_CHECK(sibling->first.index == node.id.index + 1);
      Merge(head_dim, &node, sibling->second);
      level_by_level.erase(sibling);
    }
    node.id = node.id.parent();
    // A right child without a left one rises alone; so does a left one.
    RONDO_CHECK(level_by_level.count(node.id) == 0);
    level_by_level.emplace(node.id, std::move(node));
  }
  return std::move(level_by_level.begin()->second);
}

Finished Finish(int head_dim, const Node& node) {
  Finished finished;
  for (size_t i = 0; i < node.m.size(); ++i) {
    const float l = node.l[i];
    const float inverse = l == 0 ? 0 : 1.0f / l;
    for (int d = 0; d < head_dim; ++d) finished.out.push_back(node.o[i * head_dim + d] * inverse + 0.0f);
    finished.lse.push_back(l == 0 ? -std::numeric_limits<float>::infinity()
                                  : (node.m[i] + std::log2(l)) * 0.6931471805599453f);
  }
  return finished;
}

}  // namespace rondo::cuda
