// Moves an attention job's tensors between the client's files and the ranks that own the rows, several streams at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "cli/attend_tensors.h"
#include "cli/raw_call.h"
#include "grpcpp/grpcpp.h"
#include "rondo/v1/attention.pb.h"

namespace rondo::cli {

// A file of rows of float32 that are written where they belong as they arrive.
struct RowFile {
  int fd = -1;
  uint64_t begin = 0;  // of row 0
  uint64_t row_bytes = 0;
};

class AttendTransfer {
 public:
  // `on_progress` is called on the calling thread about ten times a second with the bytes done and the total.
  using Progress = std::function<void(uint64_t done, uint64_t total)>;

  AttendTransfer(const v1::AttentionTicket& ticket, absl::Time deadline, int streams_per_rank)
      : ticket_(ticket), deadline_(deadline), streams_per_rank_(streams_per_rank) {}

  // Each blocks until all is done or the first error.
  grpc::Status Upload(const AttendTensors& tensors, const Progress& on_progress);
  grpc::Status Download(v1::Tensor tensor, const RowFile& file, const Progress& on_progress);

  void Cancel();  // any thread; the transfer ends with CANCELLED

  uint64_t bytes() const { return done_; }

 private:
  struct Piece {
    v1::Tensor tensor;
    int64_t first_row, rows;
  };
  class Share;  // one rank's pieces

  grpc::Status RunStreams(const std::vector<std::vector<Piece>>& pieces, uint64_t total, const Progress& on_progress,
                          const std::function<grpc::Status(int rank, Share& share)>& stream);
  grpc::Status UploadStream(int rank, Share& share, const AttendTensors& tensors);
  grpc::Status DownloadStream(int rank, Share& share, const RowFile& file);
  grpc::Status Fetch(RawCall& call, const Piece& piece, const RowFile& file);
  bool Enter(RawCall* call);  // false: cancelled already
  void Exit(RawCall* call);

  const v1::AttentionTicket& ticket_;
  const absl::Time deadline_;
  const int streams_per_rank_;
  std::atomic<uint64_t> done_{0};
  std::mutex mutex_;
  std::set<RawCall*> calls_;
  bool cancelled_ = false;
};

}  // namespace rondo::cli
