// Ring attention in an MPI program of your own: every rank makes its rows of q, k and v, gets its rows of the output,
// and rank 0 prints a checksum over all bits. Any number of ranks prints the same one.
#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "rondo/library.h"
#include "rondo/mpi.h"
#include "rondo/ring.h"

namespace {

constexpr int64_t kTokens = 3000;
constexpr int32_t kQueryHeads = 8, kKvHeads = 2, kHeadDim = 64;

// Rows [begin, end) of a tensor with `width` numbers a row: any function of the row will do.
std::vector<float> Rows(rondo::PositionRun run, int64_t width, uint32_t tensor) {
  std::vector<float> rows;
  for (int64_t i = run.begin * width; i < run.end * width; ++i) {
    rows.push_back(static_cast<float>((static_cast<uint64_t>(i) + tensor) * 2654435761u % 2000) / 1000.0f - 1.0f);
  }
  return rows;
}

int Run(rondo::Transport& transport) {
  const auto kernels = rondo::FindAttentionKernels();
  const auto pool = rondo::MakeThreadPool(1);
  rondo::RingProblem problem;
  problem.shape = {.q_heads = kQueryHeads, .kv_heads = kKvHeads, .head_dim = kHeadDim, .scale = 0.125f};
  problem.q_tokens = problem.kv_tokens = kTokens;
  auto ring = rondo::RingAttend::Create(problem, **kernels, transport, *pool);
  if (!ring.ok()) return std::fprintf(stderr, "%s\n", ring.status().ToString().c_str()), 1;
  for (const rondo::PositionRun run : (*ring)->kv_rows()) {
    (*ring)->StoreKeys(run.begin, run.size(), Rows(run, kKvHeads * kHeadDim, 1).data());
    (*ring)->StoreValues(run.begin, run.size(), Rows(run, kKvHeads * kHeadDim, 2).data());
  }
  std::vector<float> q;
  for (const rondo::PositionRun run : (*ring)->q_rows()) {
    const std::vector<float> rows = Rows(run, kQueryHeads * kHeadDim, 3);
    q.insert(q.end(), rows.begin(), rows.end());
  }
  std::vector<float> out(q.size());
  const std::atomic<bool> never{false};
  const auto report = (*ring)->Run(q.data(), out.data(), nullptr, {.job = 1}, never);
  if (!report.ok()) return std::fprintf(stderr, "%s\n", report.status().ToString().c_str()), 1;

  uint64_t sum = 0, total = 0;  // of the bits, each weighted by its place in the whole output
  size_t at = 0;
  for (const rondo::PositionRun run : (*ring)->q_rows()) {
    for (int64_t i = run.begin * kQueryHeads * kHeadDim; i < run.end * kQueryHeads * kHeadDim; ++i) {
      uint32_t bits;
      std::memcpy(&bits, &out[at++], sizeof(bits));
      sum += (static_cast<uint64_t>(i) * 2 + 1) * bits;
    }
  }
  MPI_Reduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (transport.rank() == 0) std::printf("checksum %016llx\n", static_cast<unsigned long long>(total));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  auto transport = rondo::MakeMpiTransport(MPI_COMM_WORLD);
  if (!transport.ok()) return std::fprintf(stderr, "%s\n", transport.status().ToString().c_str()), 1;
  const int code = Run(**transport);
  if (!rondo::FreeMpiTransport(*std::move(transport)).ok()) return 1;
  MPI_Finalize();
  return code;
}
