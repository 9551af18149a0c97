// AttendWgmma for one element type; attend_hopper_bf16.cu and attend_hopper_fp16.cu compile it.
#pragma once

#include "kernels/cuda/attention/hopper/attend_hopper.h"
#include "kernels/cuda/attention/hopper/attend_wgmma.cuh"
#include "kernels/cuda/attention/hopper/encode_map.h"
#include "kernels/cuda/attention/launch.cuh"

namespace rondo::cuda {

template <class Element, int D>
std::string LaunchHopper(const AttentionArgs& args, int ctas, void* stream) {
  using Config = HopperConfig<Element, D>;
  if (ctas == 0) return {};  // no rows, of which there is no map
  HopperMaps maps;
  if (std::string wrong = EncodeMap("queries", QueryMap(args, D), &maps.queries); !wrong.empty()) return wrong;
  if (std::string wrong = EncodeMap("keys and values", KeyMap(args, D), &maps.keys); !wrong.empty()) return wrong;
  return LaunchKernel(AttendWgmma<Config>, ctas, Config::kThreads, Stages<Config>::kSharedBytes, stream, args, maps);
}

template <class Element>
std::string LaunchHopper(int head_dim, const AttentionArgs& args, int ctas, void* stream) {
  switch (head_dim) {
    case 64:
      return LaunchHopper<Element, 64>(args, ctas, stream);
    case 128:
      return LaunchHopper<Element, 128>(args, ctas, stream);
    default:
      return LaunchHopper<Element, 256>(args, ctas, stream);
  }
}

}  // namespace rondo::cuda
