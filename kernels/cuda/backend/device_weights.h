// A model's weights in a GPU's memory, in the forms its products read; made once by CudaDense when a rank starts.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "kernels/cuda/backend/gpu_dense.h"
#include "rondo/model.h"
#include "rondo/tensor_memory.h"

namespace rondo::cuda {

// cuBLASLt's rows begin on 16 bytes: eight bf16.
constexpr int64_t kLtMultiple = 8;
constexpr int64_t LtPaddedOutputs(int64_t n) { return (n + kLtMultiple - 1) / kLtMultiple * kLtMultiple; }

// Device pointers; null: nothing reads the weight in that form.
struct DeviceWeight {
  const uint16_t* rounded = nullptr;  // bf16 [LtPaddedOutputs(rows), cols], the padding arbitrary
  const uint8_t* packed = nullptr;    // for MatMulFewRows
  const uint8_t* file = nullptr;      // as it lies in the file
};

class DeviceWeights {
 public:
  // Every matrix of a layer in bf16 for given rows, and packed for drawn ones where its type can be; the output as
  // drawn rows want it, for no other reach it; the embedding as it is. The file is read once from end to end, with a
  // log line every two seconds. RESOURCE_EXHAUSTED with the bytes needed and free; INVALID_ARGUMENT naming a size or
  // type that has no kernel.
  static absl::StatusOr<DeviceWeights> Upload(GpuDense& gpu, const ModelWeights& weights);

  // By where they lie in the model. One that was not uploaded is a bug.
  const DeviceWeight& Of(const WeightView& weight) const;
  const float* Gain(const float* host) const;

  // The most columns and the most padded outputs of the weights in bf16.
  int64_t most_cols() const { return most_cols_; }
  int64_t most_outputs() const { return most_outputs_; }

 private:
  explicit DeviceWeights(TensorMemory& memory) : storage_(memory) {}

  TensorBuffer storage_;
  std::unordered_map<const void*, DeviceWeight> weights_;
  std::unordered_map<const float*, const float*> gains_;
  int64_t most_cols_ = 0;
  int64_t most_outputs_ = 0;
};

}  // namespace rondo::cuda
