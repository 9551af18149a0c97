// The GPU module of this process, opened at run time: its table, and that table as the CudaApi of the transports; used
// by worker/main.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/module.h"
#include "worker/transport/device/cuda_api.h"

namespace rondo {

inline constexpr char kGpuModuleFile[] = "librondo_cuda.so";

// Where the module is looked for: RONDO_CUDA_MODULE (a file) alone where it is set, else beside this program and in
// ../lib/rondo of it.
std::vector<std::string> GpuModulePaths();

struct OpenedModule {
  const rondo_cuda_module_v1* table = nullptr;  // null: see error
  std::string error = {};
  bool absent = false;          // no such file, as opposed to one that cannot be used
  bool cublas_missing = false;  // the file is there, and the loader does not find cuBLASLt for it
};
// Opens the first that exists; it stays open. Reads nothing of the GPU.
OpenedModule OpenGpuModule(const std::vector<std::string>& paths);

std::unique_ptr<CudaApi> MakeModuleCuda(const rondo_cuda_module_v1* table);

}  // namespace rondo
