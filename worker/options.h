// The command line of rondo-worker, checked; used by worker/main.cc.
#pragma once

#include <cstdint>
#include <string>

#include "rondo/compute.h"
#include "rondo/ring.h"
#include "worker/device/choose_device.h"

namespace rondo {

struct WorkerOptions {
  std::string coordinator = "127.0.0.1:7070";
  std::string model;  // empty: attention jobs only
  bool check_model = false;
  bool measure = false;
  DeviceRequest device;
  TransportKind transport = TransportKind::kAuto;
  int ranks = 1;                            // loopback: ranks of this process
  int threads = 0;                          // of one rank; 0: this machine's CPUs shared among its ranks
  std::string kernels;                      // empty: RONDO_KERNELS or the best
  std::string compute;                      // empty: q8 for a quantised model, f32 otherwise
  std::string kv_type;                      // empty: bf16 with q8, f32 with f32
  uint64_t kv_memory_bytes = 0;             // of one rank; 0: half of what is available, shared among the ranks here
  std::string data_listen = "127.0.0.1:0";  // of each rank's data server
  RingStrategy strategy = RingStrategy::kAuto;
  std::string prefill_chunk = "whole";
  int64_t prefill_chunk_tokens = 0;  // parsed; 0: whole
};

// Fills `options`. Returns -1 to go on, or the exit code: 0 after --help, 2 with a message for a usage error.
int ParseWorkerOptions(int argc, char** argv, WorkerOptions* options);

}  // namespace rondo
