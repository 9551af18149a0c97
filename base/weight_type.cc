// The weight types of GGUF files that Rondo reads: block shapes as ggml defines them (ggml-common.h).
#include "rondo/dense_kernels.h"

namespace rondo {

const WeightTypeInfo* FindWeightType(WeightType type) {
  static constexpr WeightTypeInfo kF32{"F32", 1, 4, false};
  static constexpr WeightTypeInfo kF16{"F16", 1, 2, false};
  static constexpr WeightTypeInfo kBF16{"BF16", 1, 2, false};
  static constexpr WeightTypeInfo kQ4_0{"Q4_0", 32, 18, true};
  static constexpr WeightTypeInfo kQ4_1{"Q4_1", 32, 20, true};
  static constexpr WeightTypeInfo kQ5_0{"Q5_0", 32, 22, true};
  static constexpr WeightTypeInfo kQ5_1{"Q5_1", 32, 24, true};
  static constexpr WeightTypeInfo kQ8_0{"Q8_0", 32, 34, true};
  static constexpr WeightTypeInfo kQ4_K{"Q4_K", 256, 144, true};
  static constexpr WeightTypeInfo kQ5_K{"Q5_K", 256, 176, true};
  static constexpr WeightTypeInfo kQ6_K{"Q6_K", 256, 210, true};
  switch (type) {
    case WeightType::kF32:
      return &kF32;
    case WeightType::kF16:
      return &kF16;
    case WeightType::kBF16:
      return &kBF16;
    case WeightType::kQ4_0:
      return &kQ4_0;
    case WeightType::kQ4_1:
      return &kQ4_1;
    case WeightType::kQ5_0:
      return &kQ5_0;
    case WeightType::kQ5_1:
      return &kQ5_1;
    case WeightType::kQ8_0:
      return &kQ8_0;
    case WeightType::kQ4_K:
      return &kQ4_K;
    case WeightType::kQ5_K:
      return &kQ5_K;
    case WeightType::kQ6_K:
      return &kQ6_K;
  }
  return nullptr;
}

}  // namespace rondo
