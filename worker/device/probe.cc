#include "worker/device/probe.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace rondo {
namespace {

// Empty when the library can be opened; else what the loader says.
std::string LoadError(const char* library) {
  if (dlopen(library, RTLD_LAZY | RTLD_LOCAL) != nullptr) return {};
  const char* const text = dlerror();
  return text == nullptr ? library : text;
}

bool BoundToOneDevice() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && *visible != '\0' && std::strchr(visible, ',') == nullptr;
}

void AskDriver(const rondo_cuda_module_v1& table, GpuFacts& facts) {
  facts.driver_error = LoadError("libcuda.so.1");
  if (!facts.driver_error.empty()) return;
  int version = 0;
  if (const int error = table.driver_version(&version); error != 0) facts.driver_error = table.error_text(error);
  facts.driver_cuda = version;
  int count = 0;
  if (const int error = table.device_count(&count); error != 0) {
    facts.driver_error = table.error_text(error);
    return;
  }
  for (int i = 0; i < count; ++i) {
    rondo_cuda_device_v1 device = {};
    if (const int error = table.device_facts(i, &device); error != 0) {
      facts.driver_error = absl::StrCat("GPU ", i, ": ", table.error_text(error));
      return;
    }
    facts.devices.push_back({std::string(device.name, strnlen(device.name, sizeof(device.name))), device.capability});
  }
}

}  // namespace

GpuFacts ProbeGpu(const OpenedModule& module) {
  GpuFacts facts;
  facts.module_error = module.error;
  facts.module_absent = module.absent;
  facts.cublas_missing = module.cublas_missing;
  if (module.table == nullptr) return facts;
  facts.module_cuda = module.table->cuda_version;
  facts.module_targets = module.table->targets;
  AskDriver(*module.table, facts);
  facts.bound = BoundToOneDevice();
  facts.nccl_error = LoadError("libnccl.so.2");
  facts.cudnn_error = LoadError("libcudnn.so.9");
  return facts;
}

}  // namespace rondo
