// One TensorPiece (proto/rondo/v1/attention.proto) as bytes of the wire, written and read where they lie: the tensor's
// rows go from a mapped file to the socket and from the socket to their place in memory, and nothing between copies
// them. Used by the ranks' data servers and the command line; any other client uses its generated code.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace rondo {

struct PieceJob {  // v1::JobRef
  std::string job_id;
  std::string token;
  uint64_t epoch = 0;
};

struct PieceHead {
  bool has_job = false;
  PieceJob job;
  int32_t tensor = 0;  // v1::Tensor
  int64_t first_row = 0;
  int32_t type = 0;  // v1::ElementType
};

// The bytes before the data of a piece whose data, `data_bytes` of them, come last.
std::string PieceFramePrefix(const PieceHead& head, uint64_t data_bytes);

struct PieceFrame {
  PieceHead head;
  uint64_t data_begin = 0;  // where the data lie in the message
  uint64_t data_bytes = 0;
};

// Reads a message that came in parts. Fields may come in any order, unknown ones are skipped, of a field that comes
// twice the last counts: protobuf's rules. INVALID_ARGUMENT for bytes that are no message.
absl::StatusOr<PieceFrame> ParsePieceFrame(absl::Span<const absl::Span<const uint8_t>> parts);

}  // namespace rondo
