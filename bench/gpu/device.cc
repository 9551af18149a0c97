// Facts of the card and of the libraries that the sections use.
#include <cuda_runtime_api.h>

#include <string>

#include "bench/gpu/device_memory.h"
#include "bench/gpu/lines.h"
#include "bench/gpu/sections.h"
#include "kernels/cuda/cudnn/sdpa.h"

namespace rondo::gpu_check {

void SayDevice() {
  int count = 0;
  Require(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  cudaDeviceProp properties;
  Require(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  int driver = 0, runtime = 0;
  Require(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  Require(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const auto cudnn = cuda::CudnnVersion();
  Line line("fact");
  line.Text("card", properties.name)
      .Text("capability", std::to_string(properties.major) + "." + std::to_string(properties.minor))
      .Count("multiprocessors", properties.multiProcessorCount)
      .Count("memory_bytes", static_cast<int64_t>(properties.totalGlobalMem))
      .Count("driver", driver)
      .Count("runtime", runtime)
      .Count("cudnn", cudnn.ok() ? *cudnn : 0);
  if (!cudnn.ok()) line.Text("cudnn_absent", cudnn.status().ToString());
  line.Say();
}

}  // namespace rondo::gpu_check
