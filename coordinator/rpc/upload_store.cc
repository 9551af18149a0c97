#include "coordinator/rpc/upload_store.h"

#include <sys/random.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace rondo::coordinator {

std::string RandomId() {
  char bytes[16];
  RONDO_CHECK(::getrandom(bytes, sizeof(bytes), 0) == static_cast<ssize_t>(sizeof(bytes)));
  return absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes)));
}

UploadStore::Arriving::~Arriving() {
  if (finished_) return;
  const std::lock_guard lock(store_.mutex_);
  store_.total_ -= data_.size();
}

absl::Status UploadStore::Arriving::Append(const std::string& piece, int64_t now) {
  if (data_.size() + piece.size() > store_.limits_.upload_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("upload: more than the ", store_.limits_.upload_bytes, " bytes that --max-upload allows"));
  }
  {
    const std::lock_guard lock(store_.mutex_);
    store_.ForgetOld(now);
    if (store_.total_ + piece.size() > store_.limits_.total_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("upload: ", store_.total_, " bytes are held for all clients, ",
                                                       piece.size(), " more would pass the limit of ",
                                                       store_.limits_.total_bytes));
    }
    store_.total_ += piece.size();
  }
  data_ += piece;
  return absl::OkStatus();
}

std::string UploadStore::Arriving::Finish(int64_t now) {
  const std::string id = RandomId();
  const std::lock_guard lock(store_.mutex_);
  store_.entries_[id] = {std::make_shared<const std::string>(std::move(data_)), now};
  finished_ = true;
  return id;
}

absl::StatusOr<std::shared_ptr<const std::string>> UploadStore::Find(const std::string& id, int64_t now) {
  const std::lock_guard lock(mutex_);
  ForgetOld(now);
  const auto it = entries_.find(id);
  if (it == entries_.end()) return absl::NotFoundError("upload_id: no such upload; they are kept for 10 minutes");
  it->second.last_used = now;
  return it->second.data;
}

void UploadStore::ForgetOld(int64_t now) {
  std::erase_if(entries_, [&](const auto& entry) {
    if (now - entry.second.last_used < limits_.expiry_us) return false;
    total_ -= entry.second.data->size();
    return true;
  });
}

}  // namespace rondo::coordinator
