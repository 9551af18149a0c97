#include "rondo/library.h"

#include "base/thread_pool.h"
#include "kernels/registry.h"

namespace rondo {

absl::StatusOr<const AttentionKernels*> FindAttentionKernels(std::string_view name) {
  const absl::StatusOr<KernelSet> set = SelectKernels(name);
  if (!set.ok()) return set.status();
  return set->attention;
}

std::shared_ptr<ThreadPool> MakeThreadPool(int threads) { return std::make_shared<ThreadPool>(threads); }

}  // namespace rondo
