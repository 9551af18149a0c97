// Looks at this machine for what a GPU worker needs; used by worker/main before anything else is started.
#pragma once

#include "worker/device/gpu_facts.h"
#include "worker/device/gpu_module.h"

namespace rondo {

// Opens libraries and asks the driver, but starts no GPU context.
GpuFacts ProbeGpu(const OpenedModule& module);

}  // namespace rondo
