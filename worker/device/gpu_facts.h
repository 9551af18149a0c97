// What this machine offers a GPU worker, as found by ProbeGpu and judged by ChooseDevice.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace rondo {

struct GpuFacts {
  struct Device {
    std::string name;
    int capability = 0;  // 90 for 9.0
  };

  // The module librondo_cuda.so. Empty: it was opened and is of this version; else what is wrong, with where it was
  // looked for.
  std::string module_error = "not looked for";
  bool module_absent = true;    // with module_error: there is none, and not a wrong one
  bool cublas_missing = false;  // with module_error: it is cuBLASLt that was not found
  int module_cuda = 0;          // CUDA it was built with: 13000
  std::string module_targets;   // "sm_80 sm_90a"; empty: it has no kernels

  int driver_cuda = 0;  // the newest CUDA that the driver runs; 0: there is no driver
  std::string driver_error;
  std::vector<Device> devices;
  bool bound = false;  // CUDA_VISIBLE_DEVICES names one: whoever started the ranks gave each its own

  // Empty: found; else what the loader says.
  std::string nccl_error;
  std::string cudnn_error;
};

// The place of this process among the ranks of its machine and of its group.
struct RankPlace {
  int local_rank = 0;
  int local_size = 1;
  int world = 1;
};

}  // namespace rondo
