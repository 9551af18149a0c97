#include "tests/testing/simt/copies.h"

#include <cstring>
#include <utility>

#include "tests/testing/simt/cta.h"

namespace rondo::simt {
namespace {

constexpr size_t kBytes = 16;

CopyQueue& MyCopies() {
  Thread& self = ThisCta().self();
  if (self.copies == nullptr) self.copies = std::make_shared<CopyQueue>();
  return *self.copies;
}

void Land(const std::vector<PendingCopy>& group) {
  for (const PendingCopy& copy : group) {
    unsigned char* to = ThisCta().shared().Write(copy.destination, kBytes, kBytes, copy.site);
    if (copy.source != nullptr) {
      std::memcpy(to, copy.source, kBytes);
    } else {
      std::memset(to, 0, kBytes);
    }
  }
}

}  // namespace

void CopyAsync16(uint32_t destination, const void* source, bool valid, CallSite site) {
  Cta& cta = ThisCta();
  cta.shared().Write(destination, kBytes, kBytes, site);
  cta.shared().Poison(destination, kBytes);
  if (valid) {
    CheckGlobal(source, kBytes, kBytes, false, site);
    cta.counters().copied_bytes += kBytes;
  }
  MyCopies().open.push_back({destination, valid ? source : nullptr, site});
}

void CommitCopies(CallSite) {
  CopyQueue& mine = MyCopies();
  if (!ThisCta().options().slow_copies) Land(mine.open);
  mine.groups.push_back(std::move(mine.open));
  mine.open.clear();
  ThisCta().Preempt();
}

void WaitCopies(int keep, CallSite) {
  CopyQueue& mine = MyCopies();
  while (mine.groups.size() > static_cast<size_t>(keep)) {
    // Also where they landed at once: for the race detector, this is when the bytes may last be written.
    Land(mine.groups.front());
    mine.groups.pop_front();
  }
}

}  // namespace rondo::simt
