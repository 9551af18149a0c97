#include "cli/attend_transfer.h"

#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/half.h"
#include "base/piece_frame.h"

namespace rondo::cli {
namespace {

constexpr int64_t kPieceBytes = 256 << 10;       // the size gRPC moves fastest
constexpr int64_t kFetchBytes = 16 << 20;        // one Get call
constexpr std::chrono::milliseconds kLook{100};  // between two progress reports

// bfloat16 goes as it is; float16 is widened on the way.
int64_t WireElementBytes(FileType type) { return type == FileType::kBf16 ? 2 : 4; }

void Release(void* buffer) { delete[] static_cast<float*>(buffer); }

grpc::Slice DataOf(const TensorFile& file, int64_t first, int64_t count) {
  const uint8_t* from = file.data() + first * ElementBytes(file.type());
  if (file.type() != FileType::kF16) {
    // The mapping outlives the call.
    return grpc::Slice(from, count * ElementBytes(file.type()), grpc::Slice::STATIC_SLICE);
  }
  float* wide = new float[count];
  for (int64_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, from + 2 * i, 2);
    wide[i] = HalfToFloat(half);
  }
  return grpc::Slice(wide, count * sizeof(float), Release);
}

grpc::Status Broken(const std::string& what) { return grpc::Status(grpc::StatusCode::INTERNAL, what); }

// Writes bytes [begin, begin + size) of the slices at `offset` of the file.
grpc::Status WriteAt(int fd, uint64_t offset, const std::vector<grpc::Slice>& slices, uint64_t begin, uint64_t size) {
  std::vector<iovec> parts;
  for (const grpc::Slice& slice : slices) {
    const uint64_t skip = std::min<uint64_t>(begin, slice.size());
    const uint64_t take = std::min<uint64_t>(size, slice.size() - skip);
    begin -= skip;
    size -= take;
    if (take > 0) parts.push_back({const_cast<uint8_t*>(slice.begin()) + skip, take});
  }
  size_t part = 0;
  while (part < parts.size()) {
    const int count = static_cast<int>(std::min<size_t>(parts.size() - part, 512));
    ssize_t wrote = pwritev(fd, &parts[part], count, static_cast<off_t>(offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return Broken(absl::StrCat("cannot write the result: ", std::strerror(errno)));
    offset += wrote;
    for (; wrote > 0 && part < parts.size(); ++part) {
      const size_t whole = parts[part].iov_len;
      if (static_cast<size_t>(wrote) < whole) {
        parts[part].iov_base = static_cast<char*>(parts[part].iov_base) + wrote;
        parts[part].iov_len -= wrote;
        break;
      }
      wrote -= whole;
    }
  }
  return grpc::Status::OK;
}

}  // namespace

class AttendTransfer::Share {
 public:
  explicit Share(const std::vector<Piece>& pieces) : pieces_(pieces) {}
  const Piece* Next() {
    const size_t i = next_.fetch_add(1);
    return i < pieces_.size() ? &pieces_[i] : nullptr;
  }
  size_t size() const { return pieces_.size(); }

 private:
  const std::vector<Piece>& pieces_;
  std::atomic<size_t> next_{0};
};

bool AttendTransfer::Enter(RawCall* call) {
  const std::lock_guard lock(mutex_);
  if (!cancelled_) calls_.insert(call);
  return !cancelled_;
}

void AttendTransfer::Exit(RawCall* call) {
  const std::lock_guard lock(mutex_);
  calls_.erase(call);
}

void AttendTransfer::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (RawCall* call : calls_) call->Cancel();
}

grpc::Status AttendTransfer::RunStreams(const std::vector<std::vector<Piece>>& pieces, uint64_t total,
                                        const Progress& on_progress,
                                        const std::function<grpc::Status(int rank, Share& share)>& stream) {
  done_ = 0;
  std::deque<Share> shares;
  for (const std::vector<Piece>& list : pieces) shares.emplace_back(list);
  std::mutex mutex;
  std::condition_variable wake;
  grpc::Status result;
  int running = 0;
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    const int streams = static_cast<int>(std::min<size_t>(streams_per_rank_, shares[rank].size()));
    for (int s = 0; s < streams; ++s) {
      ++running;
      threads.emplace_back([&, rank] {
        pthread_setname_np(pthread_self(), "rondo-transfer");
        const grpc::Status status = stream(static_cast<int>(rank), shares[rank]);
        bool first = false;
        {
          const std::lock_guard lock(mutex);
          first = result.ok() && !status.ok();
          if (first) result = status;
          --running;
        }
        wake.notify_all();
        if (first) Cancel();
      });
    }
  }
  {
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, kLook, [&] { return running == 0; })) {
      lock.unlock();
      on_progress(done_, total);
      lock.lock();
    }
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

grpc::Status AttendTransfer::Upload(const AttendTensors& tensors, const Progress& on_progress) {
  std::vector<std::vector<Piece>> pieces(ticket_.ranks_size());
  uint64_t total = 0;
  for (int rank = 0; rank < ticket_.ranks_size(); ++rank) {
    for (const v1::Tensor tensor : {v1::Q, v1::K, v1::V}) {
      const int64_t row_bytes = tensors.RowElements(tensor) * WireElementBytes(tensors.Of(tensor).type());
      const int64_t rows = std::max<int64_t>(1, kPieceBytes / row_bytes);
      for (const v1::RowRun& run : tensor == v1::Q ? ticket_.ranks(rank).q_rows() : ticket_.ranks(rank).kv_rows()) {
        total += (run.end() - run.begin()) * row_bytes;
        for (int64_t at = run.begin(); at < run.end(); at += rows) {
          pieces[rank].push_back({tensor, at, std::min(rows, run.end() - at)});
        }
      }
    }
  }
  return RunStreams(pieces, total, on_progress,
                    [&](int rank, Share& share) { return UploadStream(rank, share, tensors); });
}

grpc::Status AttendTransfer::UploadStream(int rank, Share& share, const AttendTensors& tensors) {
  RawCall call(MakeDataChannel(ticket_.ranks(rank).data_address()), "/rondo.v1.AttentionData/Put", deadline_);
  if (!Enter(&call)) return grpc::Status::CANCELLED;
  PieceHead head;
  head.has_job = true;  // in the first piece
  head.job = {ticket_.job_id(), ticket_.token(), ticket_.epoch()};
  bool open = call.Start();
  while (open) {
    const Piece* piece = share.Next();
    if (piece == nullptr) break;
    const TensorFile& file = tensors.Of(piece->tensor);
    const int64_t row = tensors.RowElements(piece->tensor);
    const grpc::Slice data = DataOf(file, piece->first_row * row, piece->rows * row);
    head.tensor = piece->tensor;
    head.first_row = piece->first_row;
    head.type = file.type() == FileType::kBf16 ? v1::BF16 : v1::F32;
    const grpc::Slice slices[] = {grpc::Slice(PieceFramePrefix(head, data.size())), data};
    open = call.Write(grpc::ByteBuffer(slices, 2));
    if (open) done_ += data.size();
    head.has_job = false;
  }
  if (open) {
    call.WritesDone();
    grpc::ByteBuffer reply;
    call.Read(&reply);
  }
  const grpc::Status status = call.Finish();
  Exit(&call);
  return status;
}

grpc::Status AttendTransfer::Download(v1::Tensor tensor, const RowFile& file, const Progress& on_progress) {
  std::vector<std::vector<Piece>> pieces(ticket_.ranks_size());
  uint64_t total = 0;
  const int64_t rows = std::max<int64_t>(1, kFetchBytes / static_cast<int64_t>(file.row_bytes));
  for (int rank = 0; rank < ticket_.ranks_size(); ++rank) {
    for (const v1::RowRun& run : ticket_.ranks(rank).q_rows()) {
      total += (run.end() - run.begin()) * file.row_bytes;
      for (int64_t at = run.begin(); at < run.end(); at += rows) {
        pieces[rank].push_back({tensor, at, std::min(rows, run.end() - at)});
      }
    }
  }
  return RunStreams(pieces, total, on_progress,
                    [&](int rank, Share& share) { return DownloadStream(rank, share, file); });
}

grpc::Status AttendTransfer::DownloadStream(int rank, Share& share, const RowFile& file) {
  const std::shared_ptr<grpc::Channel> channel = MakeDataChannel(ticket_.ranks(rank).data_address());
  while (const Piece* piece = share.Next()) {
    RawCall call(channel, "/rondo.v1.AttentionData/Get", deadline_);
    if (!Enter(&call)) return grpc::Status::CANCELLED;
    const grpc::Status status = Fetch(call, *piece, file);
    Exit(&call);
    if (!status.ok()) return status;
  }
  return grpc::Status::OK;
}

grpc::Status AttendTransfer::Fetch(RawCall& call, const Piece& piece, const RowFile& file) {
  v1::GetRequest request;
  request.mutable_job()->set_job_id(ticket_.job_id());
  request.mutable_job()->set_token(ticket_.token());
  request.mutable_job()->set_epoch(ticket_.epoch());
  request.set_tensor(piece.tensor);
  request.set_first_row(piece.first_row);
  request.set_rows(piece.rows);
  const grpc::Slice bytes(request.SerializeAsString());
  grpc::Status wrong;
  int64_t row = piece.first_row;
  if (call.Start() && call.Write(grpc::ByteBuffer(&bytes, 1)) && call.WritesDone()) {
    grpc::ByteBuffer message;
    std::vector<grpc::Slice> slices;
    while (wrong.ok() && call.Read(&message)) {
      slices.clear();
      message.Dump(&slices);
      std::vector<absl::Span<const uint8_t>> parts;
      for (const grpc::Slice& slice : slices) parts.emplace_back(slice.begin(), slice.size());
      const absl::StatusOr<PieceFrame> frame = ParsePieceFrame(parts);
      const int64_t end = piece.first_row + piece.rows;
      if (!frame.ok() || frame->head.first_row != row || frame->data_bytes == 0 ||
          frame->data_bytes % file.row_bytes != 0 ||
          frame->data_bytes / file.row_bytes > static_cast<uint64_t>(end - row)) {
        wrong = Broken(absl::StrCat("a rank sent rows that were not asked for, at row ", row));
        call.Cancel();
        break;
      }
      wrong = WriteAt(file.fd, file.begin + row * file.row_bytes, slices, frame->data_begin, frame->data_bytes);
      row += frame->data_bytes / file.row_bytes;
      done_ += frame->data_bytes;
    }
    if (!wrong.ok()) call.Cancel();
    while (!wrong.ok() && call.Read(&message)) {
    }
  }
  const grpc::Status status = call.Finish();
  if (!wrong.ok()) return wrong;
  if (status.ok() && row != piece.first_row + piece.rows) {
    return Broken(absl::StrCat("a rank sent ", row - piece.first_row, " rows of ", piece.rows));
  }
  return status;
}

}  // namespace rondo::cli
