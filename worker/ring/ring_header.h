// The 64 bytes in front of everything the ring sends: they make a message of another job, layer or step an error that
// names both sides instead of a wrong number; used by the ring's strategies, written down in docs/FORMATS.md.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace rondo {

static_assert(std::endian::native == std::endian::little, "messages are little-endian");

// Little-endian. Example: the blocks of rank 2 on their first hop, layer 5 of job 7, chunk at position 8192,
// 1048576 bytes of payload:
//   52 49 4e 47 | 01 00 00 00 | 07 00 00 00 00 00 00 00 | 05 00 00 00 | 01 00 00 00
//   02 00 00 00 | 00 00 00 00 | 00 20 00 00 00 00 00 00 | 00 00 10 00 00 00 00 00 | 16 zero bytes
struct RingHeader {
  static constexpr uint32_t kMagic = 0x474e4952;  // "RING"
  enum Kind : uint32_t {
    kBlocks = 1,
    kNodes = 2,  // of a decode step
    kAgreement = 3,
    kQueries = 4,
    kPartials = 5,  // nodes on their way home to the rank of their queries
    kKept = 6,      // blocks on their way to the rank that keeps them
  };
  enum Flags : uint32_t {
    kStop = 1,     // set by rank 0 in its own kBlocks or kQueries header: the job ends after this layer, on every rank
    kSkipped = 2,  // the sender knows of the cancellation: there is no payload, or it means nothing
  };

  uint32_t magic = kMagic;
  uint32_t kind = kBlocks;
  uint64_t job = 0;  // sequence number of the job in its group
  int32_t layer = 0;
  int32_t step = 0;    // hops made, counting this one; of kPartials, those its queries made; else 0
  int32_t origin = 0;  // the rank that keeps these blocks or computed these nodes
  uint32_t flags = 0;
  int64_t position = 0;        // first of the prefill chunk, or the decoded one
  uint64_t payload_bytes = 0;  // that follow this header
  uint64_t reserved[2] = {0, 0};

  absl::Span<const std::byte> bytes() const { return {reinterpret_cast<const std::byte*>(this), sizeof(*this)}; }
  absl::Span<std::byte> bytes() { return {reinterpret_cast<std::byte*>(this), sizeof(*this)}; }
};
static_assert(sizeof(RingHeader) == 64);

// INTERNAL naming both sides unless `got` from rank `from` is what `expected` says; flags are free, and with kSkipped
// kBlocks, kQueries, kPartials and kKept may have no payload. `received_bytes` of payload arrived.
absl::Status CheckHeader(const RingHeader& expected, const RingHeader& got, int from, size_t received_bytes);

}  // namespace rondo
