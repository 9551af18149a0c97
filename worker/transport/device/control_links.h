// Small messages between the ranks of a GPU group on a host transport: what announces, accepts and ends the messages of
// a DeviceTransport, and carries those of host memory; its thread's own.
//
// On the wire a control message is 32 bytes, little-endian, and at most kMostBody bytes of body:
//   offset 0: "RDCM"  4: kind (u32)  8: epoch (u64)  16: number (u64)  24: bytes (u64)
// Example: the third message of epoch 7 to this peer, "abc" from host memory (kInline = 1):
//   52 44 43 4d 01 00 00 00  07 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00  61 62 63
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "rondo/transport.h"

namespace rondo {

enum class ControlKind : uint32_t {
  kInline = 1,  // a message of host memory, its bytes in the body
  kOffer = 2,   // a longer one; the receiver answers kAccept when it has room
  kAccept = 3,
  kPayload = 4,  // its bytes come next, by themselves
  kDevice = 5,   // a message of device memory; the body is the path's note
  kTaken = 6,    // its receiver no longer reads the sender's memory
  kAbort = 7,    // the sender has failed; the body says why
  kBye = 8,      // the sender's last message
};

struct ControlHeader {
  static constexpr uint32_t kMagic = 0x4d434452;  // "RDCM"
  uint32_t magic = kMagic;
  ControlKind kind = ControlKind::kInline;
  uint64_t epoch = 0;
  uint64_t number = 0;  // of the message it is about, among those of its sender to its receiver
  uint64_t bytes = 0;   // of that message
};
static_assert(sizeof(ControlHeader) == 32);

class ControlLinks {
 public:
  // Beyond this a message waits for kAccept. As the MPI transport's own limit for what travels behind its length.
  static constexpr size_t kMostBody = 16 << 10;

  // Gets what has come; called from Poll.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    virtual absl::Status OnMessage(int from, const ControlHeader& header, absl::Span<const std::byte> body) = 0;
    // kPayload `header` is here: where its header.bytes bytes go. They stay there until OnPayload.
    virtual absl::StatusOr<std::byte*> PayloadPlace(int from, const ControlHeader& header) = 0;
    virtual absl::Status OnPayload(int from, uint64_t number) = 0;
    // The data of SendPayload is no longer read.
    virtual void OnPayloadSent(int to, uint64_t number) = 0;
  };

  // `control` outlives this, and nobody else calls it but for Abort.
  ControlLinks(Transport& control, uint64_t epoch);
  // Unless every peer has said kBye, the buffers of open receives are kept for good: the control transport may still
  // write to them.
  ~ControlLinks();

  absl::Status Start();  // listens to every peer from here on
  absl::Status Send(int to, ControlKind kind, uint64_t number, uint64_t bytes, absl::Span<const std::byte> body = {});
  absl::Status SendPayload(int to, uint64_t number, absl::Span<const std::byte> data);  // data is the caller's
  // Hands out what has come and gone; false: nothing had.
  absl::StatusOr<bool> Poll(Receiver& receiver);
  bool sent() const { return outgoing_.empty(); }
  // After the control transport's Abort: returns when it no longer touches anybody's memory.
  void Drain();
  // Sent messages have left, and every peer has said kBye.
  bool quiet() const;

 private:
  struct Outgoing {
    int to = 0;
    bool payload = false;
    uint64_t number = 0;
    std::vector<std::byte> bytes;  // of a control message
    Transport::Pending pending;
  };
  struct Peer {
    std::vector<std::byte> buffer;
    Transport::Pending pending;
    bool listening = false;
    bool said_bye = false;
    bool in_payload = false;  // `pending` receives the bytes of a kPayload
    ControlHeader payload;
  };

  absl::Status Listen(int from);
  absl::Status Take(int from, size_t size, Receiver& receiver);

  Transport& control_;
  const uint64_t epoch_;
  std::vector<Peer> peers_;
  std::deque<std::unique_ptr<Outgoing>> outgoing_;
};

}  // namespace rondo
