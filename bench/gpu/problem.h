// A random attention problem on the device, its launch arguments, and the comparison of sampled rows with float64; used
// by the sections of gpu_check.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/gpu/attention_under_test.h"
#include "bench/gpu/device_memory.h"
#include "bench/gpu/oracle.h"
#include "kernels/cuda/attention/args.h"

namespace rondo::gpu_check {

struct Shape {
  int head_dim = 128;
  int q_heads = 64;
  int kv_heads = 8;
  int64_t rows = 0;    // queries
  int64_t tokens = 0;  // keys, at positions 0, 1, ...
  int64_t first_position = 0;
  OracleMask mask = {};
  float softcap = 0;
  bool alibi = false;
  bool sinks = false;
  float q_deviation = 1;  // of the elements of q: how far scores reach

  std::string Words() const;
  float scale() const;
};

// Operations of the products, counting only keys that are seen: 2 * 2 * head_dim for each query head and pair.
double Flops(const Shape& shape);

// Bytes of q, k, v, out and lse.
size_t ProblemBytes(const Shape& shape);

class Problem {
 public:
  Problem(const Shape& shape, uint64_t seed);

  const Shape& shape() const { return shape_; }
  // Everything but where results go.
  cuda::AttentionArgs Args() const;
  // Only rows [begin, end) and the canonical blocks [first_block, end_block) of keys.
  cuda::AttentionArgs Args(int64_t begin, int64_t end, int64_t first_block, int64_t end_block) const;
  int64_t blocks() const { return (shape_.tokens + BlockTokens() - 1) / BlockTokens(); }

  const uint16_t* q() const { return q_.get(); }
  const uint16_t* k() const { return k_.get(); }
  const uint16_t* v() const { return v_.get(); }

  // Row `row` of query head `head` by plain loops, from what is in device memory.
  OracleRow Oracle(int64_t row, int head) const;

 private:
  void HideUnseenKeys();
  OracleScore Score(int head) const;

  Shape shape_;
  DeviceArray<uint16_t> q_;  // [rows, q_heads, head_dim]
  DeviceArray<uint16_t> k_;  // [tokens, kv_heads, head_dim]
  DeviceArray<uint16_t> v_;
  std::vector<float> host_slopes_, host_sinks_;  // [q_heads]
  DeviceArray<float> slopes_, sinks_;
};

// Where finished rows of a problem go; poisoned until a kernel writes.
struct FinishedRows {
  FinishedRows(const Shape& shape, bool as_float);
  void Poison();
  cuda::OutputArgs Args() const;
  std::vector<float> Out(int64_t row, int head) const;
  float Lse(int64_t row, int head) const;

  Shape shape;
  bool as_float;
  DeviceArray<uint16_t> out_bf16;  // one of the two is empty
  DeviceArray<float> out_float;
  DeviceArray<float> lse;  // [rows, q_heads]
};

struct RowErrors {
  double out = 0;  // in units of what is allowed (oracle.h): fine up to 1
  double lse = 0;
  double out_square = 0;  // sum of squared differences of out, and how many: for the root mean square
  int64_t numbers = 0;
  bool fine() const { return out <= 1 && lse <= 1; }
  double Rms() const;
};
void AddErrors(const OracleRow& oracle, const std::vector<float>& out, float lse, RowErrors* errors);

// Rows worth looking at: the first and last ones, both sides of tile and block borders, and others in between.
struct Sample {
  int64_t row;
  int head;
};
std::vector<Sample> Samples(const Shape& shape, int count);

}  // namespace rondo::gpu_check
