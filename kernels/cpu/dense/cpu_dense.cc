#include "kernels/cpu/dense/cpu_dense.h"

#include <algorithm>

#include "base/aligned.h"
#include "base/check.h"
#include "base/fp_env.h"
#include "base/thread_pool.h"

namespace rondo {
namespace {

// Below this much work a second thread costs more than it saves (a wake-up is some microseconds).
constexpr int64_t kElementsPerTask = 16384;

std::byte* ThreadScratch() {
  thread_local Scratch<std::byte> scratch;
  return scratch.Get(kMatMulScratchBytes);
}

// Splits `items` of `item_elements` each into tasks of about kElementsPerTask and calls run(begin, end).
template <typename Function>
void ForRanges(int64_t items, int64_t item_elements, ThreadPool& pool, Function run) {
  const int64_t per_task = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, item_elements));
  pool.Run((items + per_task - 1) / per_task,
           [&](int64_t task, int) { run(task * per_task, std::min(items, (task + 1) * per_task)); });
}

}  // namespace

void CpuDense::PrepareRows(ComputeMode mode, const float* x, int64_t count, int64_t cols, ActivationRows* rows,
                           ThreadPool& pool) const {
  rows->mode = mode;
  rows->x = x;
  rows->count = count;
  rows->cols = cols;
  if (mode != ComputeMode::kQ8 || cols % 32 != 0) {
    rows->codes.clear();
    rows->scale.clear();
    rows->scaled_sum.clear();
    rows->code_sums.clear();
    rows->groups.clear();
    return;
  }
  const int64_t blocks = cols / 32;
  rows->codes.resize(count * cols);
  rows->scale.resize(count * blocks);
  rows->scaled_sum.resize(count * blocks);
  rows->code_sums.resize(count * blocks * 2);
  ForRanges(count, cols, pool, [&](int64_t begin, int64_t end) {
    const int64_t b = begin * blocks;
    ops_.quantise(x + begin * cols, (end - begin) * blocks, rows->codes.data() + b * 32, rows->scale.data() + b,
                  rows->scaled_sum.data() + b, rows->code_sums.data() + b * 2);
  });
  rows->groups.clear();
  if (ops_.pack_groups == nullptr || count <= kFewRows) return;
  const int64_t groups = (count + ops_.group_tokens - 1) / ops_.group_tokens;
  rows->groups.resize(groups * ops_.group_bytes(cols));
  ForRanges(groups, cols * ops_.group_tokens, pool,
            [&](int64_t begin, int64_t end) { ops_.pack_groups(*rows, begin, end, rows->groups.data()); });
}

void CpuDense::MatMul(const WeightView& weight, const ActivationRows& rows, float* y, ThreadPool& pool) const {
  RONDO_CHECK(weight.cols == rows.cols);
  const WeightTypeInfo* info = FindWeightType(weight.type);
  RONDO_CHECK(info != nullptr && weight.cols % info->block_elements == 0);
  if (rows.count == 0 || weight.rows == 0) return;
  const bool q8 = info->quantised && rows.has_codes();
  RONDO_CHECK(!q8 || ops_.pack_groups == nullptr || rows.count <= kFewRows || !rows.groups.empty());
  // Many rows: eight panels by one token tile a task, so that the panels share the tokens in L2. Few: as many panels as
  // make half a megabyte of weights. In both, enough tasks that all threads end at about the same time.
  const int64_t token_tiles = (rows.count + ops_.tile_tokens - 1) / ops_.tile_tokens;
  const int64_t panels = (weight.rows + ops_.panel_rows - 1) / ops_.panel_rows;
  int64_t most = 8;
  if (rows.count <= 8) {
    const int64_t panel_bytes = std::max<int64_t>(1, ops_.panel_rows * static_cast<int64_t>(weight.row_bytes));
    most = (512 << 10) / panel_bytes;
  }
  const int64_t panels_per_task =
      std::clamp<int64_t>(panels * token_tiles / (4 * pool.threads()), 1, std::max<int64_t>(1, most));
  const int64_t row_tasks = (panels + panels_per_task - 1) / panels_per_task;
  pool.Run(row_tasks * token_tiles, [&](int64_t task, int) {
    const int64_t rows_per_task = panels_per_task * ops_.panel_rows;
    MatMulTile tile;
    tile.weight = &weight;
    tile.rows = &rows;
    tile.row_begin = task / token_tiles * rows_per_task;
    tile.row_end = std::min(weight.rows, tile.row_begin + rows_per_task);
    tile.token_begin = task % token_tiles * ops_.tile_tokens;
    tile.token_end = std::min(rows.count, tile.token_begin + ops_.tile_tokens);
    tile.y = y;
    (q8 ? ops_.matmul_q8 : ops_.matmul_f32)(tile, ThreadScratch());
  });
}

void CpuDense::DequantiseRow(const WeightView& weight, int64_t row, float* out) const {
  ScopedComputeFpEnv fp_env;  // the products of K-quant scales may be denormal
  ops_.dequantise(weight.type, weight.data + row * weight.row_bytes, weight.cols, out);
}

void CpuDense::DequantiseRows(const WeightView& weight, const int32_t* ids, int64_t count, float* out,
                              ThreadPool& pool) const {
  pool.Run(count, [&](int64_t i, int) { DequantiseRow(weight, ids[i], out + i * weight.cols); });
}

void CpuDense::RmsNorm(const float* x, const float* gain, float eps, int64_t count, int64_t cols, float* y,
                       ThreadPool& pool) const {
  ForRanges(count, cols, pool, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ops_.rms_norm(x + i * cols, gain, eps, cols, y + i * cols);
  });
}

void CpuDense::Rope(float* x, int64_t count, int32_t heads, int32_t head_dim, RopePairing pairing, const float* cos,
                    const float* sin, int32_t rotated, ThreadPool& pool) const {
  const int64_t row = int64_t{heads} * head_dim;
  ForRanges(count, row, pool, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      ops_.rope(x + i * row, heads, head_dim, pairing, cos + i * (rotated / 2), sin + i * (rotated / 2), rotated);
    }
  });
}

void CpuDense::GatedActivation(GateKind kind, const float* gate, const float* up, int64_t elements, float* out,
                               ThreadPool& pool) const {
  ForRanges(elements, 1, pool,
            [&](int64_t begin, int64_t end) { ops_.gate(kind, gate + begin, up + begin, end - begin, out + begin); });
}

void CpuDense::Add(float* x, const float* y, int64_t elements, ThreadPool& pool) const {
  ForRanges(elements, 1, pool, [&](int64_t begin, int64_t end) { ops_.add(x + begin, y + begin, end - begin); });
}

}  // namespace rondo
