// One CUDA device as the attention kernels' host side sees it: memory, copies and launches; implemented over the CUDA
// runtime in the GPU module, and over the emulator in tests.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/cuda/attention/args.h"
#include "kernels/cuda/attention/decode_args.h"
#include "rondo/tensor_memory.h"

namespace rondo::cuda {

// Launches happen in order, and after the copies before them. What fails on a device ends the process with the
// device's own words: a rank without its device has no part in a ring. One thread at a time, but for TensorMemory's
// Allocate, Free, Owns and copies.
class Gpu : public TensorMemory {
 public:
  virtual std::string_view family() const = 0;   // sm80, sm90: which bits it gives
  virtual int32_t leaf_level() const = 0;        // Attend's canonical block is 2^leaf_level KV blocks
  virtual int32_t drawn_leaf_level() const = 0;  // and Decode's
  virtual bool HasHeadDim(int32_t head_dim) const = 0;

  bool is_host() const final { return false; }

  // bf16 queries, keys and values; nodes out. args.scratch is filled in here.
  virtual void Attend(AttentionArgs args, int32_t head_dim) = 0;
  // The same for a few rows of each of several sequences, whose structs lie on the device. `items`: as DecodeItems adds
  // up.
  virtual void Decode(const DecodeArgs& args, int64_t items, int32_t head_dim) = 0;
  // left <- merge(left, right) of one node each.
  virtual void Merge(const NodeArgs& left, const NodeArgs& right, int64_t rows, int32_t heads, int32_t head_dim) = 0;
  virtual void Finish(const NodeArgs& root, const OutputArgs& output, int64_t rows, int32_t heads,
                      int32_t head_dim) = 0;
};

}  // namespace rondo::cuda
