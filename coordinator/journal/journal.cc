#include "coordinator/journal/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/text.h"
#include "coordinator/journal/frame.h"

namespace rondo::coordinator {
namespace {

absl::Status Errno(const char* what, const std::string& path) {
  const int code = errno;
  return absl::ErrnoToStatus(code, absl::StrCat("journal ", path, ": ", what));
}

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Errno("write", path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

// A new name in a folder is on the disk only when the folder is.
absl::Status SyncFolder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Errno("open folder", path);
  const int rc = ::fsync(fd);
  ::close(fd);
  return rc == 0 ? absl::OkStatus() : Errno("sync folder", path);
}

// What is wrong and what to do about it: nothing here repairs a file that something else has changed.
absl::Status Damaged(const std::string& path, size_t offset, const char* what, std::string_view how) {
  return absl::DataLossError(
      absl::StrCat("journal ", path, ": ", what, offset, Sv(how), ". Keep a copy (cp ", path, " ", path,
                   ".damaged), then start with the jobs recorded before the damage (truncate -s ", offset, " ", path,
                   ") or with none (rm ", path, ")"));
}

// The file's bytes, mapped for one replay.
class Mapping {
 public:
  Mapping(int fd, size_t size) : size_(size) {
    if (size_ > 0) data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  }
  ~Mapping() {
    if (size_ > 0 && data_ != MAP_FAILED) ::munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(const std::string& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return absl::FailedPreconditionError(absl::StrCat("journal ", path, ": ", error.message()));
  // The lock is a file of its own: Rewrite gives the journal a new inode.
  const std::string lock_path = path + ".lock";
  const int lock_fd = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_fd < 0) return Errno("open lock", path);
  if (::flock(lock_fd, LOCK_EX | LOCK_NB) != 0) {
    const bool taken = errno == EWOULDBLOCK;
    const absl::Status failed = Errno("lock", path);
    ::close(lock_fd);
    if (!taken) return failed;
    return absl::FailedPreconditionError(absl::StrCat("journal ", path, ": another coordinator uses it"));
  }
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) {
    const absl::Status failed = Errno("open", path);
    ::close(lock_fd);
    return failed;
  }
  std::unique_ptr<Journal> journal(new Journal(path, fd, lock_fd));
  struct stat info {};
  if (::fstat(fd, &info) != 0) return Errno("stat", path);
  const std::string header = EncodeFileHeader();
  std::string found(kFileHeaderBytes, '\0');
  const ssize_t n = ::pread(fd, found.data(), found.size(), 0);
  if (n < 0) return Errno("read", path);
  found.resize(static_cast<size_t>(n));
  if (found.size() < kFileHeaderBytes && header.starts_with(found)) {
    // New, or its first process died while writing the header.
    if (::ftruncate(fd, 0) != 0) return Errno("truncate", path);
    if (absl::Status s = WriteAll(fd, header, path); !s.ok()) return s;
    if (::fsync(fd) != 0) return Errno("sync", path);
    if (absl::Status s = SyncFolder(path); !s.ok()) return s;
    journal->size_ = kFileHeaderBytes;
    return journal;
  }
  if (found != header) {
    return absl::FailedPreconditionError(absl::StrCat(
        "journal ", path, ": the first 16 bytes are not those of a version ", kJournalVersion, " journal"));
  }
  journal->size_ = static_cast<uint64_t>(info.st_size);
  return journal;
}

Journal::~Journal() {
  if (fd_ >= 0) ::close(fd_);
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

absl::StatusOr<Journal::Replayed> Journal::Replay(absl::FunctionRef<absl::Status(std::string_view payload)> record) {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) return Errno("stat", path_);
  const Mapping mapping(fd_, static_cast<size_t>(info.st_size));
  if (!mapping.ok()) return Errno("map", path_);
  const std::string_view bytes = mapping.bytes();
  Replayed replayed;
  size_t at = kFileHeaderBytes;
  while (at < bytes.size()) {
    const std::optional<Frame> frame = DecodeFrame(bytes.substr(at));
    if (!frame) break;
    if (absl::Status s = record(frame->payload); !s.ok()) {
      return absl::IsDataLoss(s) ? Damaged(path_, at, "record at offset ", absl::StrCat(": ", s.message())) : s;
    }
    ++replayed.records;
    at += frame->size;
  }
  if (at < bytes.size()) {
    if (AnyFrameIn(bytes.substr(at + 1))) {
      return Damaged(path_, at, "bad record at offset ", " with good records after it");
    }
    replayed.torn_bytes = bytes.size() - at;
    if (::ftruncate(fd_, static_cast<off_t>(at)) != 0) return Errno("truncate", path_);
    if (::fsync(fd_) != 0) return Errno("sync", path_);
  }
  size_ = at;
  return replayed;
}

absl::Status Journal::Append(std::string_view payload) {
  if (payload.size() > kMaxPayloadBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("journal: a record of ", payload.size(), " bytes exceeds ", kMaxPayloadBytes));
  }
  const std::string frame = EncodeFrame(payload);
  if (absl::Status status = WriteAll(fd_, frame, path_); !status.ok()) {
    // Half a record may not stay in front of later ones. If even this fails, replay reports it as DATA_LOSS.
    if (::ftruncate(fd_, static_cast<off_t>(size_)) != 0) status = Errno("truncate after a failed write", path_);
    return status;
  }
  size_ += frame.size();
  return absl::OkStatus();
}

absl::Status Journal::Retract(uint64_t size) {
  RONDO_CHECK(size >= kFileHeaderBytes && size <= size_);
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) return Errno("take records back", path_);
  size_ = size;
  return absl::OkStatus();
}

absl::Status Journal::Sync() { return ::fdatasync(fd_) == 0 ? absl::OkStatus() : Errno("sync", path_); }

absl::Status Journal::Rewrite(absl::FunctionRef<absl::Status(Journal& fresh)> fill) {
  const std::string fresh_path = path_ + ".new";
  const int fd = ::open(fresh_path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return Errno("open", fresh_path);
  Journal fresh(fresh_path, fd, -1);
  absl::Status status = WriteAll(fd, EncodeFileHeader(), fresh_path);
  fresh.size_ = kFileHeaderBytes;
  if (status.ok()) status = fill(fresh);
  if (status.ok() && ::fsync(fd) != 0) status = Errno("sync", fresh_path);
  if (status.ok() && ::rename(fresh_path.c_str(), path_.c_str()) != 0) status = Errno("rename", fresh_path);
  if (!status.ok()) {
    ::unlink(fresh_path.c_str());
    return status;
  }
  std::swap(fd_, fresh.fd_);
  size_ = fresh.size_;
  return SyncFolder(path_);
}

}  // namespace rondo::coordinator
