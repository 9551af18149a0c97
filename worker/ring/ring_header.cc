#include "worker/ring/ring_header.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace rondo {
namespace {

std::string Text(const RingHeader& h) {
  return absl::StrCat("kind ", h.kind, " of job ", h.job, " layer ", h.layer, " step ", h.step, " origin ", h.origin,
                      " position ", h.position, " with ", h.payload_bytes, " bytes");
}

}  // namespace

absl::Status CheckHeader(const RingHeader& expected, const RingHeader& got, int from, size_t received_bytes) {
  RingHeader want = expected;
  const bool may_be_empty = want.kind != RingHeader::kNodes && want.kind != RingHeader::kAgreement;
  if (may_be_empty && (got.flags & RingHeader::kSkipped) != 0) want.payload_bytes = 0;
  if (got.magic != want.magic || got.kind != want.kind || got.job != want.job || got.layer != want.layer ||
      got.step != want.step || got.origin != want.origin || got.position != want.position ||
      got.payload_bytes != want.payload_bytes) {
    return absl::InternalError(absl::StrCat("ring message from rank ", from, ": expected ", Text(want), ", got ",
                                            got.magic == want.magic ? Text(got) : "no ring header"));
  }
  if (received_bytes != want.payload_bytes) {
    return absl::InternalError(absl::StrCat("ring payload from rank ", from, ": expected ", want.payload_bytes,
                                            " bytes, got ", received_bytes));
  }
  return absl::OkStatus();
}

}  // namespace rondo
