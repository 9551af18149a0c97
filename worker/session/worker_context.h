// Everything one rank's step loop works with; made by main (or a test) and outliving the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/thread_pool.h"
#include "kernels/registry.h"
#include "model/gguf/llama_loader.h"
#include "model/tokenizer/tokenizer.h"
#include "rondo/attention_kernels.h"
#include "rondo/compute.h"
#include "rondo/ring.h"
#include "rondo/transport.h"

namespace rondo {

class AttentionStore;

struct WorkerContext {
  std::shared_ptr<const LoadedModel> model;  // null: attention jobs only
  std::shared_ptr<const Tokenizer> tokenizer;
  AttentionStore* attention = nullptr;  // where data calls find attention jobs; null: none are taken
  KernelSet kernels;
  ComputeMode compute = ComputeMode::kF32;
  KvType kv_type = KvType::kF32;
  int64_t prefill_chunk = 0;                   // 0: whole
  uint64_t kv_memory_bytes = 0;                // of this rank, for all its jobs; 0: as much as can be mapped
  std::function<uint64_t()> available_memory;  // of this machine, bytes, now; empty: not asked
  Transport* transport = nullptr;
  ThreadPool* pool = nullptr;
  RingStrategy strategy = RingStrategy::kAuto;
  RingRates rates;  // measured at start-up, for kAuto
  // For the head of a step: rank 0 may be busy for hours with a job of its own (the float64 reference).
  absl::Duration control_timeout = absl::Hours(24);
  absl::Duration ring_timeout = absl::Minutes(10);  // for one wait; a dead peer is noticed earlier by its heartbeats
};

inline AttentionShape ShapeOf(const ModelConfig& config, const AttentionKernels& kernels, KvType kv_type) {
  AttentionShape shape;
  shape.q_heads = config.q_heads;
  shape.kv_heads = config.kv_heads;
  shape.head_dim = config.head_dim;
  shape.kv_type = kv_type;
  shape.leaf_level = kernels.leaf_level();
  shape.scale = 1.0f / __builtin_sqrtf(static_cast<float>(config.head_dim));
  return shape;
}

}  // namespace rondo
