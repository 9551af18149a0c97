// The coordinator's memory across restarts: an append-only file of framed records. Used by the engine's driver thread
// alone; not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rondo::coordinator {

class Journal {
 public:
  struct Replayed {
    uint64_t records = 0;
    uint64_t torn_bytes = 0;  // cut off the end: a record that was being written when the process died
  };

  // Opens or creates the file (and its folders) and takes its lock. FAILED_PRECONDITION if another coordinator has it,
  // or the file is not a journal of this version.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(const std::string& path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Calls `record` with each payload in order, then cuts a torn tail off. A bad record with a good one after it is
  // DATA_LOSS with its offset; nothing is changed then. An error of `record` is returned, DATA_LOSS with
  // the offset and what to do about it.
  absl::StatusOr<Replayed> Replay(absl::FunctionRef<absl::Status(std::string_view payload)> record);

  // Adds a record. After an error the file ends with the last whole record, and later calls may succeed.
  absl::Status Append(std::string_view payload);
  // Takes back what was appended since the file had `size` bytes.
  absl::Status Retract(uint64_t size);
  // Returns when everything appended is on the disk.
  absl::Status Sync();

  // Replaces the whole content by what `fill` appends, atomically: a crash leaves the old file or the new one.
  absl::Status Rewrite(absl::FunctionRef<absl::Status(Journal& fresh)> fill);

  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_; }

 private:
  Journal(std::string path, int fd, int lock_fd) : path_(std::move(path)), fd_(fd), lock_fd_(lock_fd) {}

  std::string path_;
  int fd_ = -1;
  int lock_fd_ = -1;
  uint64_t size_ = 0;  // whole records end here
};

}  // namespace rondo::coordinator
