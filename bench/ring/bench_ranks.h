// What the ring's benches share: medians, ranks as threads or as processes of an mpirun, a shape from the command line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rondo/attention_kernels.h"
#include "rondo/transport.h"

namespace rondo {

double Median(std::vector<double> values);

// Runs `work` on `ranks` ranks as threads of this process.
void OnThreads(int ranks, const std::function<void(Transport&)>& work);

struct BenchOptions {
  bool sweep = false;
  bool decode = false;
  bool json = false;  // one object a line; of the steps and the prefill
  int64_t tokens = 8192;
  std::vector<int> workers = {4};
  int threads = 1;  // of one rank
  int rounds = 5;
  AttentionShape shape;
};
// Exits with 2 and the usage on a mistake.
BenchOptions ParseBenchOptions(int argc, char** argv);

// Time of both strategies over T / (T + P), with what the selector expected and chose. Collective.
void Sweep(Transport& transport, const BenchOptions& options);

// Time of a decode step at the end of `tokens`, and the nodes and bytes that it exchanges. Collective.
void DecodeStep(Transport& transport, const BenchOptions& options);

// Step time by message size, and the waits that a prefill's compute does not hide. Collective.
void StepsAndPrefill(Transport& transport, const BenchOptions& options);

}  // namespace rondo
