#include "tests/testing/simt/launch.h"

#include "tests/testing/simt/cta.h"

namespace rondo::simt {

Report Launch(int ctas, int threads, size_t shared_bytes, const Options& options, const std::function<void()>& kernel) {
  Report report;
  Stacks stacks(threads, options.stack_bytes);
  SharedMemory shared(shared_bytes);
  for (int i = 0; i < ctas && report.ok(); ++i) {
    Cta cta(i, ctas, threads, options, &shared, &report.counters, options.seed + static_cast<uint64_t>(i));
    report.fault = cta.Run(&stacks, kernel);
  }
  return report;
}

std::vector<Options> AllSchedules(uint64_t seed) {
  std::vector<Options> all;
  for (const Schedule schedule : {Schedule::kAscending, Schedule::kDescending, Schedule::kRandom, Schedule::kGreedy}) {
    for (int speeds = 0; speeds < 4; ++speeds) {
      all.push_back({.schedule = schedule,
                     .seed = seed + static_cast<uint64_t>(speeds),
                     .slow_copies = (speeds & 1) == 0,
                     .slow_tensor_core = (speeds & 2) == 0});
    }
  }
  return all;
}

}  // namespace rondo::simt
