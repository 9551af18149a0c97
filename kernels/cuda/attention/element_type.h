// The 16-bit types of q, k and v that the CUDA attention kernels take.
#pragma once

namespace rondo::cuda {

enum class ElementType { kBf16, kFp16 };

// Head sizes the kernels are compiled for.
inline constexpr int kHeadDims[] = {64, 80, 96, 128, 256};

}  // namespace rondo::cuda
