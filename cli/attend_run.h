// One attention job from opening to its result on disk, again from the start when the group is lost on the way.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "cli/attend_tensors.h"
#include "cli/attend_transfer.h"
#include "cli/client_channel.h"
#include "cli/interrupt.h"
#include "cli/npy_rows.h"
#include "cli/progress.h"
#include "rondo/v1/attention.grpc.pb.h"

namespace rondo::cli {

struct AttendOutcome {
  grpc::Status status;
  bool interrupted = false;  // by Ctrl-C
  v1::AttendFinished result;
  int restarts = 0;
  uint64_t upload_bytes = 0, download_bytes = 0;  // of the last attempt, as all times are
  absl::Duration upload, run, download, total;
};

class AttendRun {
 public:
  // The arguments outlive it. `name` begins each line of progress; may be empty.
  AttendRun(Client& client, const AttendTensors& tensors, absl::Time deadline, int streams, Interrupt& interrupt,
            ProgressLine& progress, std::string name);

  // Blocks until O (and LSE, if not null) have been written. The bits do not depend on how often it began anew.
  AttendOutcome Run(NpyRows& o, NpyRows* lse);

 private:
  grpc::Status Attempt(NpyRows& o, NpyRows* lse, AttendOutcome* outcome, bool* opened);
  grpc::Status Open(v1::AttentionTicket* ticket);
  grpc::Status Transfers(const v1::AttentionTicket& ticket, NpyRows& o, NpyRows* lse, AttendOutcome* outcome);
  grpc::Status Attend(const std::string& job, v1::AttendFinished* result);
  void Close(const std::string& job);
  AttendTransfer::Progress Show(const char* what, absl::Time began);

  Client& client_;
  const AttendTensors& tensors_;
  const absl::Time deadline_;
  const int streams_;
  Interrupt& interrupt_;
  ProgressLine& progress_;
  const std::string name_;
  std::unique_ptr<v1::AttentionService::Stub> stub_;
};

}  // namespace rondo::cli
