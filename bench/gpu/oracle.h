// One row of attention in float64 by plain loops: what every number of the GPU check is held to. Shares no code with
// the kernels. Used by the sections of gpu_check and tested against values worked out by hand.
#pragma once

#include <cstdint>
#include <vector>

namespace rondo::gpu_check {

// Which keys a query at position p sees, in words: see Sees.
struct OracleMask {
  bool causal = true;
  int64_t window = 0;  // 0: none
  int64_t visible_begin = 0;
  int64_t visible_end = int64_t{1} << 60;
};
bool Sees(const OracleMask& mask, int64_t position, int64_t key);

struct OracleScore {
  double scale = 1;
  double softcap = 0;      // 0: none
  double alibi_slope = 0;  // of this head
  bool has_sink = false;
  double sink = 0;  // a logit that joins the softmax and carries no value
};

// Keys or values of one KV head: bf16, tokens rows of head_dim elements, one after the other.
using HeadRows = std::vector<uint16_t>;

struct OracleRow {
  std::vector<double> out;  // [head_dim], zero where no key is seen
  double lse = 0;           // natural log; -inf where neither key nor sink is seen
  // sum of p |v| a column: rounding probabilities to bf16 may move `out` by 2^-9 of it.
  std::vector<double> weight;
};

// Keys lie at positions 0, 1, ...
OracleRow AttendRow(const std::vector<float>& q, const HeadRows& keys, const HeadRows& values, int64_t position,
                    const OracleMask& mask, const OracleScore& score);

// The largest error of a row, in units of what bf16 may cost: 1.25 * 2^-9 * (weight + |out|) + 1e-6, where
// probabilities and result are rounded to bf16, and a quarter is left for float32 sums and the exponential. Infinite
// where a number is not finite.
double OutError(const OracleRow& row, const std::vector<float>& out);
// In units of 1e-5 * max(1, |lse|); 0 where both are -inf.
double LseError(const OracleRow& row, float lse);

}  // namespace rondo::gpu_check
