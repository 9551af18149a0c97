// The thread that owns MPI, and what it shares with callers; used by MpiTransport alone. No MPI header here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "worker/transport/mpi_transport.h"

namespace rondo {

class MpiTransport::Progress : public std::enable_shared_from_this<MpiTransport::Progress> {
 public:
  using Transfer = PairTransport::Transfer;

  explicit Progress(const MpiOptions& options) : options_(options) {}

  // Each may be called by any thread.
  absl::Status Start();
  absl::StatusOr<uint64_t> Post(absl::Span<const Transfer> transfers);
  bool Ready(uint64_t id);
  absl::StatusOr<size_t> Wait(uint64_t id, absl::Time deadline);
  void Abort(absl::Status reason);
  absl::Status Close(absl::Time deadline);
  void Join();  // stops the thread where it is; detaches it if it hangs inside MPI

  int rank() const { return rank_; }
  int world() const { return world_; }
  uint64_t sent_bytes() const { return sent_bytes_.load(std::memory_order_relaxed); }

 private:
  enum class Phase { kStarting, kRunning, kClosing, kEnded };

  // A posted set of transfers; done when all of them are.
  struct Operation {
    std::vector<Transfer> transfers;
    size_t unfinished = 0;
    size_t received = 0;
  };
  class Wire;  // the thread's own: MPI requests and the messages they belong to

  absl::Status StartMpi();
  void ThreadMain();
  void Loop(Wire& wire);
  bool TakeRequests(Wire& wire);
  void Sleep(bool forever);
  void Finalize();
  void Finished(Operation* operation, size_t received);
  void FailLocked(absl::Status status);
  void WaitQuiet(std::unique_lock<std::mutex>& lock);

  const MpiOptions options_;
  int rank_ = 0;
  int world_ = 1;
  int comm_ = 0;  // Fortran handle of the communicator messages go through
  std::atomic<uint64_t> sent_bytes_{0};
  std::atomic<bool> attention_{false};  // the thread must look at the fields below

  std::mutex mutex_;
  std::condition_variable wake_thread_;
  std::condition_variable wake_caller_;
  Phase phase_ = Phase::kStarting;
  absl::Status failure_;
  bool stop_ = false;   // Join was called
  bool quiet_ = false;  // the thread will make no more MPI calls
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::unique_ptr<Operation>> operations_;
  std::deque<Operation*> queue_;  // not yet seen by the thread
  std::thread thread_;
};

}  // namespace rondo
