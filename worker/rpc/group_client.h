// One rank's stream to the coordinator: says Hello, takes commands in, sends heartbeats and reports out; made by
// worker/main, one for each rank of the process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/rpc/outbox.h"
#include "worker/session/command_queue.h"
#include "worker/session/report.h"
#include "worker/session/worker_context.h"

namespace rondo {

struct RankIdentity {
  std::string coordinator;   // HOST:PORT
  std::string launch_id;     // the same on all ranks of a launch
  std::string model_sha256;  // empty: no model
  std::string model_name;
  std::string transport;
  std::string cpus;  // CPU set, e.g. "0-1"
  uint64_t kv_memory_bytes = 0;
  std::string data_address;  // of this rank's data server
  std::string libraries;     // whose versions the bits depend on; empty: none
};

// Why a rank stopped, and how the process should end.
struct Departure {
  absl::Status reason;
  bool orderly = false;  // the coordinator drains: exit code 0
};

class GroupClient : public ReportSink {
 public:
  // Readings for heartbeats.
  struct Vitals {
    uint64_t kv_used_bytes = 0;
    uint64_t applied_number = 0;
    uint64_t progress = 0;
  };

  // `context` and `commands` outlive the client. `on_cancel` is called on the reading thread as soon as a CancelJob
  // arrives, before it is queued; `vitals` on the heartbeat thread.
  GroupClient(const WorkerContext& context, RankIdentity identity, CommandQueue& commands,
              std::function<void(const std::string& job)> on_cancel, std::function<Vitals()> vitals,
              OutboxLimits limits = {});
  ~GroupClient() override;

  // Dials, joins and waits for Welcome. UNAVAILABLE when nobody answers by `deadline`, or the reason of a refusal.
  absl::Status Join(absl::Time deadline);

  // After the command queue was closed: why.
  Departure departure() const;

  // Ends the stream with everything sent that was reported, waiting at most until `deadline`.
  void Leave(absl::Time deadline);

  // Reports wait for room in the outbox; without any the rank departs, RESOURCE_EXHAUSTED.
  void Progress(const std::string& job, double fraction) override;
  void Logits(const std::string& job, int64_t step, absl::Span<const float> logits) override;
  void Token(const std::string& job, int64_t step, int32_t token, bool is_end) override;
  void Ended(const JobResult& result) override;
  void AttentionOpened(const std::string& job) override;
  void AttentionRan(const AttentionFigures& figures) override;

 private:
  struct Stream;  // gRPC types stay in the .cc

  bool WaitForCoordinator(absl::Time deadline);
  void SendHello();
  void SendModelHeader();
  void ReadLoop();
  void WriteLoop();
  void HeartbeatLoop();
  void Report(v1::RankMessage message);
  void Depart(absl::Status reason, bool orderly);

  const WorkerContext& context_;
  const RankIdentity identity_;
  CommandQueue& commands_;
  const std::function<void(const std::string&)> on_cancel_;
  const std::function<Vitals()> vitals_;
  std::unique_ptr<Stream> stream_;
  Outbox outbox_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool welcomed_ = false;
  bool stopping_ = false;  // heartbeats end
  bool writer_done_ = false;
  std::optional<Departure> departure_;
  uint64_t epoch_ = 0;
  absl::Duration heartbeat_interval_ = absl::Milliseconds(500);

  std::thread reader_;
  std::thread writer_;
  std::thread heart_;
};

}  // namespace rondo
