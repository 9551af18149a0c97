// Which arriving message goes into which posted receive, and what each then needs; DeviceTransport's thread's own.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "worker/transport/device/control_links.h"
#include "worker/transport/device/engine.h"
#include "worker/transport/device/staged_copies.h"

namespace rondo {

class DeviceTransport::Matching : public ControlLinks::Receiver {
 public:
  using Part = Engine::Part;
  using Operation = Engine::Operation;

  explicit Matching(Engine& engine);

  absl::Status Begin();
  absl::Status Add(Operation& operation);
  // Brings everything on; false: nothing moved.
  absl::StatusOr<bool> Poll();
  bool idle() const { return open_parts_ == 0; }

  // Orderly end: first the path, called until true, then goodbye to all, then quiet().
  absl::Status SayBye();
  bool quiet() const { return links_.quiet(); }
  // In disorder: tells everybody why; then polls for the others' reasons until everybody has one.
  void TellFailure(const std::string& reason);
  bool everybody_failed();
  // After the host transport's Abort and the path's: when it returns, nobody's memory is touched any more.
  void Abort();

  absl::Status OnMessage(int from, const ControlHeader& header, absl::Span<const std::byte> body) override;
  absl::StatusOr<std::byte*> PayloadPlace(int from, const ControlHeader& header) override;
  absl::Status OnPayload(int from, uint64_t number) override;
  void OnPayloadSent(int to, uint64_t number) override;

 private:
  // A message that has been announced and not been asked for.
  struct Arrived {
    ControlHeader header;
    std::vector<std::byte> body;
  };
  struct Peer {
    uint64_t sent = 0;
    uint64_t received = 0;
    std::deque<Part*> receives;           // posted, in order; not yet matched
    std::deque<Arrived> arrived;          // the same of messages
    std::map<uint64_t, Part*> sending;    // by number: what an answer will be about
    std::map<uint64_t, Part*> receiving;  // by number: accepted, the payload not yet here
    bool failed = false;
  };
  // Moves of one post, for a path that takes them in order.
  struct Batch {
    uint64_t id = 0;       // of the operation
    size_t unmatched = 0;  // receives
    CudaEvent* after = nullptr;
    std::vector<DeviceMove*> moves;
  };

  absl::Status AddSend(Part& part, Batch& batch);
  absl::Status StageDown(Part& part);
  absl::Status SendPayload(Part& part);
  absl::Status Match(int from);
  absl::Status MatchSelf();
  absl::Status CopyToSelf(Part& from, Part& to);
  absl::Status Receive(Part& part, const Arrived& message);
  absl::Status ReceiveInline(Part& part, const Arrived& message);
  absl::Status ReceiveDevice(Part& part, const Arrived& message, Batch* batch);
  absl::Status FromPinned(Part& part);  // part.staging holds the message
  absl::Status Moved(Part& part);
  absl::Status StartBatches();
  void Finish(Part& part);
  bool in_order() const { return engine_.path() != nullptr && engine_.path()->in_order(); }

  Engine& engine_;
  ControlLinks links_;
  StagedCopies copies_;
  std::vector<Peer> peers_;  // this rank's own entry: messages to itself
  std::deque<Part*> self_sends_;
  std::deque<Batch> batches_;
  std::list<Part*> moving_;  // given to the path
  size_t open_parts_ = 0;
  bool ending_ = false;  // in disorder: only other ranks' failures count
};

}  // namespace rondo
