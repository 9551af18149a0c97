// The thread of a DeviceTransport, and what it shares with callers; used by DeviceTransport alone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "worker/transport/device/control_links.h"
#include "worker/transport/device/device_transport.h"

namespace rondo {

class DeviceTransport::Engine : public std::enable_shared_from_this<DeviceTransport::Engine> {
 public:
  using Transfer = PairTransport::Transfer;

  // A posted message and how far it has come.
  struct Operation;
  struct Part {
    Transfer transfer;
    bool in_device = false;  // where transfer.data lies
    Operation* operation = nullptr;
    uint64_t number = 0;           // among the messages of its sender to its receiver
    size_t bytes = 0;              // its real size, once known
    std::byte* staging = nullptr;  // pinned
    bool staged = false;           // kSend: which holds the message by now
    bool accepted = false;         // kSend: the receiver has room
    std::byte* arrival = nullptr;  // device memory that a message for host memory arrives in
    DeviceMove move;               // where the path moves it
    bool queued = false;           // the GPU will finish it: move.event
    bool done = false;
  };
  // What one Post started; done when all parts are.
  struct Operation {
    uint64_t id = 0;
    std::deque<Part> parts;  // a deque: parts do not move
    size_t undone = 0;
    size_t received = 0;
    CudaEvent* after = nullptr;
    // Left to the GPU by WaitOn: the thread forgets it when done and fails the transport when late.
    bool watched = false;
    absl::Time deadline = absl::InfiniteFuture();
  };

  Engine(Transport& control, CudaApi& cuda, std::unique_ptr<DevicePath> path, const DeviceTransportOptions& options);
  ~Engine();

  // Callers.
  absl::Status Start();
  absl::StatusOr<uint64_t> Post(absl::Span<const Transfer> transfers);
  bool Ready(uint64_t id);
  absl::StatusOr<size_t> Wait(uint64_t id, absl::Time deadline);
  absl::StatusOr<size_t> WaitOn(CudaStream* stream, uint64_t id, absl::Time deadline);
  absl::Status StartAfter(CudaStream* stream);
  void Abort(const absl::Status& reason);
  absl::Status Close(absl::Time deadline);
  void Join();
  // Runs `task` in the thread, or here once the thread has ended. False: not before the deadline.
  bool RunInThread(std::function<void()> task, absl::Time deadline);

  int rank() const { return control_.rank(); }
  int world() const { return control_.world_size(); }
  uint64_t sent_bytes() const { return sent_bytes_.load(std::memory_order_relaxed); }
  absl::Status failure();

  // The thread's.
  Transport& control() { return control_; }
  CudaApi& cuda() { return cuda_; }
  DevicePath* path() { return path_.get(); }
  const DeviceTransportOptions& options() const { return options_; }
  void Queued(Part& part);
  void Done(Part& part);
  void PeerFailed(int peer, const std::string& reason);

 private:
  friend class Matching;
  enum class Phase { kStarting, kRunning, kClosing, kEnded };

  void ThreadMain();
  absl::Status Loop(Matching& matching);
  absl::StatusOr<bool> EndInOrder(Matching& matching);
  void EndFailed(Matching& matching);
  absl::Status CheckWatched();
  bool TakeRequests(Matching& matching, absl::Status& status);
  void Sleep(absl::Duration time);
  absl::StatusOr<CudaEvent*> EventLocked();
  void ForgetLocked(Operation& operation);
  void FailLocked(absl::Status status);
  void Fail(absl::Status status);
  void WaitQuiet(std::unique_lock<std::mutex>& lock);
  template <typename Over>
  bool WaitLocked(std::unique_lock<std::mutex>& lock, absl::Time deadline, const Over& over);
  // "recv from rank 3 (100 bytes), send to rank 1 (100 bytes)": an operation's unfinished messages.
  static std::string Unfinished(const Operation& operation);
  std::string UnfinishedLocked() const;  // of the first operation that has some, or ""

  Transport& control_;
  CudaApi& cuda_;
  const std::unique_ptr<DevicePath> path_;
  const DeviceTransportOptions options_;
  std::atomic<uint64_t> sent_bytes_{0};
  std::atomic<bool> attention_{false};  // the thread must look at the fields below

  std::mutex mutex_;
  std::condition_variable wake_thread_;
  std::condition_variable wake_caller_;
  Phase phase_ = Phase::kStarting;
  absl::Status failure_;
  std::string reason_;  // what peers are told about it
  bool stop_ = false;
  bool quiet_ = false;  // the thread touches no caller's memory any more
  uint64_t next_id_ = 1;
  int watched_ = 0;  // operations
  bool said_bye_ = false;
  CudaEvent* next_after_ = nullptr;
  std::vector<CudaEvent*> free_events_;
  std::map<uint64_t, std::unique_ptr<Operation>> operations_;
  std::deque<Operation*> posted_;  // not yet seen by the thread
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;
};

}  // namespace rondo
