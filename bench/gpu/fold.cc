#include "bench/gpu/fold.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/check.h"

namespace rondo::gpu_check {
namespace {

// 2^d of an integer d <= 0, +0 below the normal floats, as the kernels have it.
float Weight(float d) { return d < -126 ? 0.0f : std::ldexp(1.0f, static_cast<int>(d)); }

}  // namespace

void Merge(Node* left, const Node& right) {
  const size_t head_dim = left->m.empty() ? 0 : left->o.size() / left->m.size();
  for (size_t i = 0; i < left->m.size(); ++i) {
    if (right.l[i] == 0) continue;
    float* o = &left->o[i * head_dim];
    const float* from = &right.o[i * head_dim];
    if (left->l[i] == 0) {
      left->m[i] = right.m[i];
      left->l[i] = right.l[i];
      std::copy(from, from + head_dim, o);
      continue;
    }
    const float m = std::max(left->m[i], right.m[i]);
    const float a = Weight(left->m[i] - m), b = Weight(right.m[i] - m);
    left->m[i] = m;
    left->l[i] = std::fma(left->l[i], a, right.l[i] * b);
    for (size_t d = 0; d < head_dim; ++d)
      o[d] = std::fma(o[d], a, from[d] * b) + 0.0f;  // no -0, as the kernels store it
  }
}

Node FoldToRoot(std::vector<Node> nodes) {
  RONDO_CHECK(!nodes.empty());
  std::map<NodeId, Node> waiting;
  // Joins `arrived` with its sibling, and the two with theirs, as long as the other is there already.
  const auto arrive = [&waiting](Node arrived) {
    for (auto sibling = waiting.find(arrived.id.sibling()); sibling != waiting.end();
         sibling = waiting.find(arrived.id.sibling())) {
      Node left = std::move(sibling->second), right = std::move(arrived);
      waiting.erase(sibling);
      if (right.id.index < left.id.index) std::swap(left, right);
      Merge(&left, right);
      left.id = left.id.parent();
      arrived = std::move(left);
    }
    const NodeId id = arrived.id;
    RONDO_CHECK(waiting.emplace(id, std::move(arrived)).second);
  };
  for (Node& node : nodes) arrive(std::move(node));
  // The siblings of those that are left lie beyond the end: the lowest rises until it meets the next.
  while (waiting.size() > 1) {
    Node lowest = std::move(waiting.begin()->second);
    waiting.erase(waiting.begin());
    lowest.id = lowest.id.parent();
    arrive(std::move(lowest));
  }
  return std::move(waiting.begin()->second);
}

std::vector<float> FinishedOut(const Node& root) {
  const size_t head_dim = root.m.empty() ? 0 : root.o.size() / root.m.size();
  std::vector<float> out(root.o.size());
  for (size_t i = 0; i < root.m.size(); ++i) {
    const float inverse = root.l[i] == 0 ? 0.0f : 1.0f / root.l[i];
    for (size_t d = 0; d < head_dim; ++d) out[i * head_dim + d] = root.o[i * head_dim + d] * inverse + 0.0f;
  }
  return out;
}

}  // namespace rondo::gpu_check
