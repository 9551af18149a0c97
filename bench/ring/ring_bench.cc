// Measures the ring: step time and bandwidth by message size and how much of a prefill's communication hides behind its
// compute; both prefill strategies and the selector between them (--sweep); a decode step (--decode).
#include "absl/time/clock.h"
#include "base/check.h"
#include "bench/ring/bench_ranks.h"
#include "worker/transport/mpi_launch.h"
#ifdef RONDO_BENCH_MPI
#include "worker/transport/mpi_transport.h"
#endif

namespace rondo {
namespace {

void Bench(Transport& transport, const BenchOptions& options) {
  if (options.sweep) return Sweep(transport, options);
  if (options.decode) return DecodeStep(transport, options);
  StepsAndPrefill(transport, options);
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  const rondo::BenchOptions options = rondo::ParseBenchOptions(argc, argv);
#ifdef RONDO_BENCH_MPI
  if (rondo::MpiLaunch::FromEnvironment().has_value()) {
    auto transport = rondo::MpiTransport::Create();
    RONDO_CHECK(transport.ok());
    rondo::Bench(**transport, options);
    return (*transport)->Close(absl::Now() + absl::Seconds(30)).ok() ? 0 : 1;
  }
#endif
  for (const int ranks : options.workers) {
    rondo::OnThreads(ranks, [&](rondo::Transport& transport) { rondo::Bench(transport, options); });
  }
}
