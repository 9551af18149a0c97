// The Llama forward pass of one rank's rows over the dense and attention seams; used by the worker's step loop, the
// local benchmark and the tests.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/rope_table.h"
#include "model/decoder/staged_rows.h"
#include "rondo/attention.h"
#include "rondo/dense_kernels.h"
#include "rondo/model.h"

namespace rondo {

class ThreadPool;

// Holds no sequence: keys and values live in the Attention, the residual stream in the caller's `hidden`. Every row is
// computed from its token, its kind, its position and what Attention returns, so its bits do not depend on the rows
// beside it. Scratch grows with the most rows of any call (q, k, v and attended rows, 4 * (2 * q + 2 * kv width) bytes
// a row, plus one row block of the feed-forward); later calls allocate nothing. Where the kernels compute on a device,
// the residual stream lies there during a call, with a row block of everything else; q, k, v and attended rows are
// copied, for attention takes and gives host memory. One thread at a time.
class Decoder {
 public:
  // All must outlive the decoder.
  Decoder(const ModelConfig& config, const ModelWeights& weights, const DenseKernels& kernels, ComputeMode mode,
          ThreadPool& pool);

  // Takes the memory of a device that calls of up to `rows` rows need, so that they cannot fail for want of it;
  // RESOURCE_EXHAUSTED with the bytes. Host memory is taken as rows come.
  absl::Status Reserve(int64_t rows);

  // Runs `tokens`, all of one kind, at the positions of `runs` (as many rows; none is allowed, attention is then still
  // called for every layer) through all layers. `on_layer` is called after each, for progress. INVALID_ARGUMENT naming
  // a token outside the vocabulary, before anything is computed; otherwise attention's error, at the layer where it
  // came: the rows of this call are then lost.
  absl::Status Forward(RowKind kind, absl::Span<const int32_t> tokens, absl::Span<const PositionRun> runs,
                       Attention& attention,
                       float* hidden,  // [rows, embedding], after the final norm
                       absl::FunctionRef<void(int32_t layer)> on_layer);

  // Logits of rows that Forward gave; the rows count as drawn, for each is there to draw from.
  void Logits(const float* hidden, int64_t rows, float* logits /* [rows, vocab] */);

 private:
  absl::Status CheckTokens(absl::Span<const int32_t> tokens) const;
  // hidden, cos, sin: of the block's first row, where the kernels compute.
  void Project(const LayerWeights& layer, const float* hidden, const float* cos, const float* sin, int64_t first,
               int64_t count);
  void AddAttendedAndFeedForward(const LayerWeights& layer, float* hidden, int64_t first, int64_t count);

  const ModelConfig& config_;
  const ModelWeights& weights_;
  const DenseKernels& kernels_;
  const ComputeMode mode_;
  ThreadPool& pool_;
  const RopeTable rope_;

  // Whole call: [rows, ...], hidden_ over the caller's.
  StagedRows cos_, sin_, q_, k_, v_, attended_, hidden_;
  StagedRows logits_;
  // One row block, in the kernels' memory.
  TensorBuffer normed_, residual_, gate_, up_;
  ActivationRows embedding_rows_, attended_rows_, feed_forward_rows_;
};

}  // namespace rondo
