// What an instruction set provides to TiledAttention: a table of leaf functions. The driver is compiled once for the
// baseline CPU; the leaves are compiled once per instruction set, see nothing of std, and allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/score.h"

namespace rondo::attention {

inline constexpr int kMaxLanes = 48;  // of a strip, over all instruction sets

// A strip is `lanes` (query row, head) pairs side by side. Its partial is one array: o [padded head_dim][lanes], then
// m [lanes], then l [lanes]. One strip against the keys of one block:
struct StripBlock {
  const float* q = nullptr;          // [head_dim][lanes], from pack_queries
  const float* keys = nullptr;       // [256][head_dim]; rows from tail_begin on are read from tail_keys
  const float* tail_keys = nullptr;  // [key_step][head_dim]
  int tail_begin = 0;                // a multiple of key_step
  const float* values = nullptr;     // from pack_values
  bool values_finite = true;
  bool paired = false;  // bf16: order of pairs is odd, even; p is rounded to bf16
  int head_dim = 0;
  const int32_t* first = nullptr;     // [lanes], ascending: lane i sees keys [first[i], last[i]) of the block
  const int32_t* last = nullptr;      // [lanes], ascending
  ScoreTransform score;               // slopes [lanes]
  const int32_t* distance = nullptr;  // [lanes], from the block's first key to the lane's query; if there are slopes
  float* scores = nullptr;            // [256][lanes], scratch
  float* partial = nullptr;           // out
};

// A few query rows of one KV head's group against one block. The rows' (row, head) pairs are row-major.
struct FewRowsBlock {
  const float* q = nullptr;  // [rows * group][head_dim], scaled (and rounded to bf16 if paired)
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;     // both [256][head_dim] of the KV type
  const std::byte* next_keys = nullptr;  // of the block that will be asked for next, or any address: for prefetching
  bool paired = false;
  int tokens = 0;
  int head_dim = 0;
  int rows = 0;
  int group = 0;
  const int32_t* first = nullptr;     // [rows]
  const int32_t* last = nullptr;      // [rows]
  ScoreTransform score;               // slopes [group]
  const int32_t* distance = nullptr;  // [rows], from the block's first key to the row; if there are slopes
  float* scratch = nullptr;           // few_rows_scratch floats
  float* o = nullptr;                 // [rows * group][head_dim], out
  float* m = nullptr;                 // [rows * group], out
  float* l = nullptr;                 // [rows * group], out
};

struct AttentionOps {
  int lanes = 0;     // of a strip
  int key_step = 0;  // keys of a register tile; divides 256
  int d_step = 0;    // head_dim is padded to a multiple of it in partials and packed values

  // rows[lane] points to head_dim floats.
  void (*pack_queries)(const float* const* rows, int head_dim, float factor, bool paired, float* q) = nullptr;
  // Widens bf16 rows [begin, end) to float, elements in order 1, 0, 3, 2, ...
  void (*widen_keys)(const uint16_t* keys, int head_dim, int begin, int end, float* out) = nullptr;
  // Rows [begin, end), of which those from `tokens` on become zero. Returns whether all values are finite.
  bool (*pack_values)(const std::byte* values, bool paired, int head_dim, int begin, int end, int tokens,
                      float* packed) = nullptr;
  size_t (*packed_values_size)(int head_dim) = nullptr;  // in floats
  void (*strip_block)(const StripBlock& args) = nullptr;
  void (*merge_strips)(float* left, const float* right, int head_dim) = nullptr;
  // o of lane i goes to out[i], head_dim floats, for i < count.
  void (*unpack_strip)(const float* partial, int head_dim, int count, float* const* out) = nullptr;

  size_t (*few_rows_scratch)(int rows, int group, int head_dim) = nullptr;  // in floats
  void (*few_rows_block)(const FewRowsBlock& args) = nullptr;

  // `count` rows of o [count][head_dim], m and l: left <- merge(left, right).
  void (*merge_rows)(int64_t count, int head_dim, float* o, float* m, float* l, const float* right_o,
                     const float* right_m, const float* right_l) = nullptr;
  // m and l of `count` rows (arrays padded to a multiple of 16) <- merged with their sinks in units of log2; weight:
  // what o is then to be multiplied by.
  void (*merge_sinks)(int64_t count, const float* sinks, float* m, float* l, float* weight) = nullptr;
  // The finish without lse; weight may be null.
  void (*finish_rows)(int64_t count, int head_dim, const float* o, const float* l, const float* weight,
                      float* out) = nullptr;
};

// Per-instruction-set tables, each in a translation unit of its own.
const AttentionOps& Avx2Ops();
const AttentionOps& Avx512Ops();
const AttentionOps& WideOps();

}  // namespace rondo::attention
