#include "tests/testing/fenced_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/check.h"

namespace rondo::testing {
namespace {

size_t Pages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

FencedMemory::~FencedMemory() { RONDO_CHECK(ranges_.empty()); }

void* FencedMemory::Allocate(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int access = opened_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
  void* p = mmap(nullptr, Pages(bytes), access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RONDO_CHECK(p != MAP_FAILED);
  ranges_.emplace(static_cast<const std::byte*>(p), Pages(bytes));
  return p;
}

void FencedMemory::Free(void* p, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = ranges_.find(static_cast<const std::byte*>(p));
  RONDO_CHECK(at != ranges_.end() && at->second == Pages(bytes));
  munmap(p, at->second);
  ranges_.erase(at);
}

bool FencedMemory::Owns(const void* p) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto after = ranges_.upper_bound(static_cast<const std::byte*>(p));
  if (after == ranges_.begin()) return false;
  --after;
  return static_cast<const std::byte*>(p) < after->first + after->second;
}

void FencedMemory::Copy(void* to, const void* from, size_t bytes) {
  const Opened opened(*this);
  std::memcpy(to, from, bytes);
  ++copies_;
}

void FencedMemory::Protect(int change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  opened_ += change;
  if (opened_ > 1 || (opened_ == 1 && change < 0)) return;
  for (const auto& [begin, bytes] : ranges_) {
    RONDO_CHECK(mprotect(const_cast<std::byte*>(begin), bytes, opened_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
  }
}

void FencedKernels::Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
                           const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const {
  for (const KvBlock& block : run) RONDO_CHECK(memory_.Owns(block.data));
  const FencedMemory::Opened opened(memory_);
  inner_.Attend(shape, queries, run, mask, nodes, pool);
}

void FencedKernels::Merge(const AttentionShape& shape, int64_t count, const PartialNode& left, const PartialNode& right,
                          ThreadPool& pool) const {
  const FencedMemory::Opened opened(memory_);
  inner_.Merge(shape, count, left, right, pool);
}

void FencedKernels::Finish(const AttentionShape& shape, int64_t count, const PartialNode& node, float* out, float* lse,
                           ThreadPool& pool) const {
  const FencedMemory::Opened opened(memory_);
  inner_.Finish(shape, count, node, out, lse, pool);
}

}  // namespace rondo::testing
