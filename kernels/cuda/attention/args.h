// What the CUDA attention kernels are told: plain structs of device pointers, strides and positions. Filled by the host
// side of the backend and by the tests; read by the kernels. No CUDA type appears here.
//
// Strides count elements and may be any multiple of 8 for q, k, v (rows begin on 16 bytes) and of 2 for nodes and
// output. Positions are global and lie within +-2^60; a launch has fewer than 2^31 rows, and rows times heads, and
// tokens.
#pragma once

#include <cstdint>

namespace rondo::cuda {

// Keys are cut by absolute position into canonical blocks of this many tokens: a constant of the CUDA families. A node
// of the tree passes through memory once for each block, D + 2 floats a row against 4096 * 4 * D operations: large
// enough for that to hide, small enough that long sequences have blocks to share out.
inline constexpr int kBlockTokens = 4096;

// Which keys a query at position p sees: an interval whose ends never fall from one position to the next.
struct MaskArgs {
  bool causal = true;                      // k <= p
  int64_t window = 0;                      // 0: none; else p - k < window and, when not causal, also k - p < window
  int64_t visible_begin = 0;               // nothing before this position (the start of a packed sequence)
  int64_t visible_end = int64_t{1} << 60;  // nothing from this position on
};

// What becomes of q.k before the softmax, in this order.
struct ScoreArgs {
  float scale = 0;                      // positive
  float softcap = 0;                    // 0: none; else s = softcap * tanh(s / softcap)
  const float* alibi_slopes = nullptr;  // [q_heads] or null: s -= slope * |k - p|
};

// Rows of consecutive positions.
struct QueryArgs {
  const void* q = nullptr;  // [rows, q_heads, head_dim]
  int64_t row_stride = 0;
  int64_t head_stride = 0;
  int64_t rows = 0;
  int64_t first_position = 0;
};

// A run of consecutive canonical blocks (decode has blocks of its own size, decode_args.h). Keys lie in pages of
// 2^page_shift tokens, by default in one. Pages that no row sees anything of need not exist; so a run may as well begin
// or end inside a block.
struct KeyArgs {
  const void* k = nullptr;
  const void* v = nullptr;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
  int32_t page_shift = 30;                // at least 6: a page holds whole tiles of 64 keys
  int64_t page_stride = 0;                // from a page's first row to the next one's
  const int64_t* page_offsets = nullptr;  // [pages], from k and v, instead of page_stride where pages lie anywhere
  int64_t first_block = 0;
  int64_t tokens = 0;  // positions first_block * kBlockTokens + [0, tokens), where the first page begins
};

// Partial nodes of the tree, the exchange format: for each node of DyadicNodes(run), in that order, the unnormalised o,
// the running maximum m (an integer, in units of log2) and the sum l of 2^(s - m). l == 0: saw no key.
struct NodeArgs {
  float* o = nullptr;  // [nodes, rows, q_heads, head_dim]
  float* m = nullptr;  // [nodes, rows, q_heads]
  float* l = nullptr;  // [nodes, rows, q_heads]
  int64_t o_node_stride = 0, o_row_stride = 0, o_head_stride = 0;
  int64_t ml_node_stride = 0, ml_row_stride = 0;  // heads lie side by side
};

// Finished rows, instead of nodes, where the run holds every key its rows see.
struct OutputArgs {
  void* out = nullptr;        // [rows, q_heads, head_dim]
  bool out_is_float = false;  // else the element type of q
  int64_t row_stride = 0, head_stride = 0;
  float* lse = nullptr;  // [rows, q_heads] or null, natural log; -inf where no key and no sink was seen
  int64_t lse_row_stride = 0;
  const float* sinks = nullptr;  // [q_heads] or null: logits that join the softmax and carry no value
};

struct AttentionArgs {
  int32_t q_heads = 0;
  int32_t kv_heads = 0;  // divides q_heads; query head h reads KV head h / (q_heads / kv_heads)
  MaskArgs mask;
  ScoreArgs score;
  QueryArgs query;
  KeyArgs keys;
  NodeArgs nodes;  // used where output.out is null
  OutputArgs output;
  float* scratch = nullptr;  // ScratchFloats() of them, 16-byte aligned
};

}  // namespace rondo::cuda
