// The definition of merging and finishing partial nodes, in plain C++, and the fold of shards' nodes along the fixed
// tree: what the law section holds the GPU's bits to.
#pragma once

#include <cstdint>
#include <vector>

#include "rondo/canonical.h"

namespace rondo::gpu_check {

struct Node {
  NodeId id;
  std::vector<float> o;     // [rows * q_heads, head_dim], unnormalised
  std::vector<float> m, l;  // [rows * q_heads]; l == 0: saw no key
};

// left <- left merged with right, which covers the blocks after left's. A side with l == 0 is the identity.
void Merge(Node* left, const Node& right);

// The root above nodes that tile a run from block 0, given in any order; a sibling that is not there is the identity.
// Merges as soon as both sides are there, as ranks do with what arrives.
Node FoldToRoot(std::vector<Node> nodes);

// out = o * (1 / l), 0 where l == 0.
std::vector<float> FinishedOut(const Node& root);

}  // namespace rondo::gpu_check
