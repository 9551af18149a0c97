#include "bench/scale/row_digest.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "base/sha256.h"

namespace rondo {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr int64_t kPieceBytes = 4 << 20;

struct Piece {
  PositionRun rows;
  int rank = 0;
};

std::vector<Piece> InRowOrder(absl::Span<const std::vector<PositionRun>> rows_of, int64_t columns) {
  const int64_t most = std::max<int64_t>(1, kPieceBytes / (columns * static_cast<int64_t>(sizeof(float))));
  std::vector<Piece> pieces;
  for (size_t rank = 0; rank < rows_of.size(); ++rank) {
    for (const PositionRun& run : rows_of[rank]) {
      for (int64_t at = run.begin; at < run.end; at += most) {
        pieces.push_back({{at, std::min(run.end, at + most)}, static_cast<int>(rank)});
      }
    }
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.rows.begin < b.rows.begin; });
  return pieces;
}

}  // namespace

absl::StatusOr<std::string> RowOrderDigest(Transport& transport, absl::Span<const std::vector<PositionRun>> rows_of,
                                           int64_t columns, const float* own) {
  Sha256 sha;
  std::vector<float> received;
  for (const Piece& piece : InRowOrder(rows_of, columns)) {
    const bool mine = piece.rank == transport.rank();
    const size_t count = static_cast<size_t>(piece.rows.size() * columns);
    absl::Span<const std::byte> send;
    absl::Span<std::byte> recv;
    if (mine) {
      send = {reinterpret_cast<const std::byte*>(own), count * sizeof(float)};
      own += count;
    }
    if (transport.rank() == 0) {
      if (mine) {
        sha.Update(send);
        continue;
      }
      received.resize(count);
      recv = {reinterpret_cast<std::byte*>(received.data()), count * sizeof(float)};
    } else if (!mine) {
      continue;
    }
    const int peer = mine ? 0 : piece.rank;
    const absl::StatusOr<Transport::Pending> pending = transport.SendRecv(peer, send, peer, recv);
    if (!pending.ok()) return pending.status();
    const absl::StatusOr<size_t> got = transport.Wait(*pending, absl::Now() + kPatience);
    if (!got.ok()) return got.status();
    sha.Update(recv);
  }
  return transport.rank() == 0 ? sha.HexDigest() : "";
}

}  // namespace rondo
