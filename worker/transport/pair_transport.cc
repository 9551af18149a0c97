#include "worker/transport/pair_transport.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace rondo {

PairTransport::Transfer PairTransport::Send(int to, absl::Span<const std::byte> data) {
  return {Transfer::Kind::kSend, to, const_cast<std::byte*>(data.data()), data.size(), false};
}

PairTransport::Transfer PairTransport::Recv(int from, absl::Span<std::byte> data, bool exact) {
  return {Transfer::Kind::kRecv, from, data.data(), data.size(), exact};
}

absl::Status PairTransport::CheckSize(const Transfer& transfer, size_t got) {
  if (got == transfer.size || (got < transfer.size && !transfer.exact)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("recv from rank ", transfer.peer, ": expected ",
                                          transfer.exact ? "" : "at most ", transfer.size, " bytes, got ", got));
}

std::string PairTransport::Describe(const Transfer& transfer) {
  return absl::StrCat(transfer.kind == Transfer::Kind::kSend ? "send to rank " : "recv from rank ", transfer.peer, " (",
                      transfer.size, " bytes)");
}

absl::StatusOr<Transport::Pending> PairTransport::SendRecv(int to, absl::Span<const std::byte> send, int from,
                                                           absl::Span<std::byte> recv) {
  const Transfer both[] = {Recv(from, recv, false), Send(to, send)};
  const size_t first = from == kNobody ? 1 : 0;
  return Post(absl::MakeConstSpan(both).subspan(first, (to == kNobody ? 1 : 2) - first));
}

absl::Status PairTransport::AllGather(absl::Span<const absl::Span<std::byte>> parts, absl::Time deadline) {
  std::vector<Transfer> transfers;
  transfers.reserve(2 * parts.size());
  const int ranks = static_cast<int>(parts.size());
  for (int step = 1; step < ranks; ++step) {
    const int from = (rank() - step + ranks) % ranks;
    transfers.push_back(Recv(from, parts[from], true));
  }
  for (int step = 1; step < ranks; ++step) transfers.push_back(Send((rank() + step) % ranks, parts[rank()]));
  absl::StatusOr<Pending> pending = Post(transfers);
  if (!pending.ok()) return pending.status();
  return Wait(*pending, deadline).status();
}

absl::Status PairTransport::Broadcast(int root, int ranks, absl::Span<std::byte> buffer, absl::Time deadline) {
  // Ranks are numbered from the root. A rank receives from the number without its lowest set bit, then sends to the
  // numbers below that bit: 0 -> 4, 2, 1; 4 -> 6, 5; 2 -> 3; 6 -> 7.
  const int self = (rank() - root + ranks) % ranks;
  int bit = 1;
  while (bit < ranks && (self & bit) == 0) bit <<= 1;
  std::vector<Transfer> transfers;
  if (self != 0) {
    transfers.push_back(Recv((self - bit + root) % ranks, buffer, true));
    absl::StatusOr<Pending> pending = Post(transfers);
    if (!pending.ok()) return pending.status();
    if (absl::Status received = Wait(*pending, deadline).status(); !received.ok()) return received;
    transfers.clear();
  }
  for (bit >>= 1; bit > 0; bit >>= 1) {
    if (self + bit < ranks) transfers.push_back(Send((self + bit + root) % ranks, buffer));
  }
  absl::StatusOr<Pending> pending = Post(transfers);
  if (!pending.ok()) return pending.status();
  return Wait(*pending, deadline).status();
}

}  // namespace rondo
