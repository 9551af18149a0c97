// Turns a GGUF file of architecture "llama" into a configuration and weight views; used by the worker, the reference
// decoder, and (configuration alone) by the coordinator, which has no tensor data.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/gguf/gguf_file.h"
#include "rondo/model.h"

namespace rondo {

struct LoadedModel {
  ModelConfig config;
  ModelWeights weights;                  // views into *file
  std::shared_ptr<const GgufFile> file;  // keeps the views alive
};

// The configuration alone: keys, bounds, and the shapes of the tensors as the header states them. `file` may be a
// header without data. INVALID_ARGUMENT names the key or tensor, its value and the limit; UNIMPLEMENTED what is not
// supported. config.rope_divisors needs tensor data and stays empty without it.
absl::StatusOr<ModelConfig> LoadConfig(const GgufFile& file);

// Configuration and weights. FAILED_PRECONDITION for a header without data. Tensors that the architecture does not know
// are ignored with one warning in the log.
absl::StatusOr<LoadedModel> LoadModel(std::shared_ptr<const GgufFile> file);

// The deep check of --check-model: reads every weight. DATA_LOSS naming tensor, row and value for a non-finite weight
// or block scale; INVALID_ARGUMENT for a vocabulary that does not fit the model. Takes about as long as reading the
// file.
absl::Status CheckModel(const LoadedModel& model);

}  // namespace rondo
