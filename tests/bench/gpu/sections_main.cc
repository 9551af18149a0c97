// The sections that make sense on the host (host_cuda.cc, host_kernels.cc): `gpu_sections_on_host NAME`.
#include <string_view>

#include "bench/gpu/sections.h"

int main(int argc, char** argv) {
  const std::string_view name = argc == 2 ? argv[1] : "";
  if (name == "accuracy") rondo::gpu_check::CheckAccuracy();
  if (name == "law") rondo::gpu_check::CheckLaw();
  if (name == "small") rondo::gpu_check::CheckSmall();
  if (name == "dense") rondo::gpu_check::MeasureDense();
  if (name == "ring") rondo::gpu_check::MeasureRing();
}
