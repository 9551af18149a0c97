// The two prefill kernels and the choice between them; used by whoever plans a launch.
#pragma once

namespace rondo::cuda {

// Their bits differ, so the choice follows from the GPU and the head size alone. Rows that are to have the same bits go
// through the same one.
enum class AttendKernel : int {
  kSm80 = 80,  // every GPU and head size
  kSm90a = 90  // capability 9.0, head sizes 64, 128 and 256
};

// Lines of 128 bytes are what the swizzle of TMA and wgmma wants: others stay with the sm_80 kernel.
constexpr bool HopperHasHeadDim(int head_dim) { return head_dim == 64 || head_dim == 128 || head_dim == 256; }

// `capability`: 90 for 9.0. sm_90a is no other GPU's: 10.0 has not its wgmma.
constexpr AttendKernel ChooseAttendKernel(int capability, int head_dim) {
  return capability == 90 && HopperHasHeadDim(head_dim) ? AttendKernel::kSm90a : AttendKernel::kSm80;
}

}  // namespace rondo::cuda
