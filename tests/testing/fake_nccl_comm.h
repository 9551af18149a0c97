// What a communicator of the fake NCCL is; for its two .cc files.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/fake_nccl.h"

namespace rondo::testing {

// The ranks that were given one unique id.
struct FakeNccl::Clique {
  struct Slot {
    const std::byte* data = nullptr;
    size_t bytes = 0;
    bool taken = false;
  };
  std::vector<Comm*> members;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Slot>>> sent;  // by (from, to)
  size_t finalized = 0;
};

struct FakeNccl::Comm {
  std::shared_ptr<Clique> clique;
  FakeCuda* process = nullptr;
  int device = 0;
  int rank = 0;
  bool gone = false;  // destroyed or aborted
  bool finalized = false;
  int inside = 0;    // calls that threads are in
  int launched = 0;  // groups on the stream
  int running = 0;   // those that have begun
  NcclResult broken = NcclResult::kSuccess;
  std::string last_error;
  // In progress until this says true; looked at by CommGetAsyncError.
  std::function<bool()> waiting;
};

// Counts the threads inside a communicator, and notes calls that may not be made.
class FakeNccl::Inside {
 public:
  Inside(FakeNccl& nccl, NcclComm* handle, const char* call, bool allowed_in_progress)
      : nccl_(nccl), comm(*reinterpret_cast<Comm*>(handle)) {
    std::lock_guard lock(nccl_.mutex_);
    ++comm.inside;
    if (comm.gone) nccl_.host_.Violation(absl::StrCat(call, " on a communicator that has ended"));
    if (comm.waiting && !allowed_in_progress) {
      nccl_.host_.Violation(absl::StrCat(call, " on a communicator that is in progress"));
      ok = false;
    }
  }
  ~Inside() {
    std::lock_guard lock(nccl_.mutex_);
    --comm.inside;
  }

 private:
  FakeNccl& nccl_;

 public:
  Comm& comm;
  bool ok = true;
};

}  // namespace rondo::testing
