// What goes round the ring: each rank's units (blocks of keys and values, or strips of queries), handed from neighbour
// to neighbour, each unit exactly as far as somebody needs it; used by pass-KV and pass-Q.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rondo/tensor_memory.h"
#include "worker/ring/ring_context.h"

namespace rondo {

// In step s a rank holds units of rank (rank - s), and those of step s + 1 are in flight. Every rank knows from the
// plan how far each unit goes, so a hop that carries nothing is not posted at all. One exception: rank 0's own header
// always goes the whole way where a job has several layers, because it carries kStop.
class Circulation {
 public:
  struct Unit {
    size_t bytes = 0;
    int reach = 0;       // the last hop on which it is needed: rank origin + reach; 0: nowhere but at home
    bool apart = false;  // at home it does not lie right behind the unit before it
  };

  // Units arrive in `memory`.
  Circulation(RingContext& context, TensorMemory& memory)
      : context_(context), buffers_{TensorBuffer(memory), TensorBuffer(memory)} {}

  // Units by origin, in the order in which they travel.
  void Plan(RingHeader::Kind kind, const std::vector<std::vector<Unit>>& units, int64_t position);
  // Memory for the largest plan, now.
  void Reserve(size_t bytes) {
    for (TensorBuffer& buffer : buffers_) buffer.Grow(bytes);
  }
  // Of one receive buffer of rank `rank`.
  static size_t BufferBytes(const std::vector<std::vector<Unit>>& units, int rank);

  // A layer begins with this rank's own units, each where own[i] says.
  void Begin(int32_t layer, absl::Span<const std::byte* const> own);

  // What is held: units [i] of origin lie at data(i); `skipped` says that they are not there, as the job is ending.
  int origin() const { return steps_[step_].origin; }
  absl::Span<const int32_t> units() const { return steps_[step_].units; }
  const std::byte* data(size_t i) const {
    return step_ == 0 ? own_[i] : buffers_[(step_ + 1) % 2].data() + steps_[step_].offsets[i];
  }
  bool skipped() const { return (header_.flags & RingHeader::kSkipped) != 0; }
  bool stop() const { return stop_; }  // rank 0 has said that this layer is the last
  bool last() const { return step_ + 1 == static_cast<int>(steps_.size()); }
  int step() const { return step_; }

  // Not for the last step: sends on what others need, posts the receives, then, after the caller's compute, waits for
  // them; the next step begins.
  absl::Status Post();
  absl::Status Receive();

  int64_t skipped_hops() const { return skipped_hops_; }  // in each layer, of those that would end here

 private:
  struct Stretch {
    size_t first = 0;  // index of its first unit among those held
    size_t bytes = 0;
  };
  struct Step {
    int origin = 0;
    bool arrives = false;  // a message brings it
    bool leaves = false;   // a message takes some of it on
    std::vector<int32_t> units;
    std::vector<size_t> offsets;
    size_t bytes = 0;
    std::vector<Stretch> out;  // what goes on, in maximal stretches of memory
    std::vector<size_t> in;    // the stretches in which it comes
  };
  static Step MakeStep(const std::vector<Unit>& units, int hops);

  RingContext& context_;
  RingHeader::Kind kind_ = RingHeader::kBlocks;
  int64_t position_ = 0;
  int64_t skipped_hops_ = 0;
  std::vector<Step> steps_;
  int step_ = 0;
  absl::Span<const std::byte* const> own_;
  bool stop_ = false;
  RingHeader header_;  // of what is held
  RingHeader sent_header_;
  RingHeader received_header_;
  std::vector<Transport::Pending> payloads_;
  Transport::Pending header_pending_;
  TensorBuffer buffers_[2];
  size_t buffer_bytes_ = 0;
};

}  // namespace rondo
