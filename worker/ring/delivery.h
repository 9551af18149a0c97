// Takes the blocks that a rank has computed straight to the rank that keeps them, where no circulation brings them
// past; used by pass-Q.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/ring/layout.h"
#include "worker/ring/ring_context.h"

namespace rondo {

class Delivery {
 public:
  explicit Delivery(RingContext& context) : context_(context) {}

  void Plan(const RingLayout& layout, int64_t position);

  // Before anything else of a layer, and after it. Between them blocks on their way out must not change, and those on
  // their way in are not there yet.
  absl::Status Post(int32_t layer);
  absl::Status Finish();

  // Bytes of blocks that `from` gives `to` in each layer.
  static size_t Bytes(const AttentionShape& shape, const RingLayout& layout, int from, int to);

 private:
  struct Exchange {
    int to = 0;
    int from = 0;
    std::vector<int64_t> out, in;  // blocks
    RingHeader sent, received;
    Transport::Pending header;
    std::vector<Transport::Pending> blocks;
  };
  absl::Status PostOne(Exchange& exchange, int32_t layer);
  absl::Status FinishOne(Exchange& exchange);

  RingContext& context_;
  int64_t position_ = 0;
  int32_t layer_ = 0;
  std::vector<Exchange> exchanges_;  // those with blocks
};

}  // namespace rondo
