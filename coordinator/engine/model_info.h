// What the coordinator knows of a model: enough to turn text into ids and back, and to check a request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "model/tokenizer/tokenizer.h"

namespace rondo::coordinator {

struct ModelInfo {
  std::string name;
  std::string sha256;
  int64_t context = 0;  // trained context, tokens
  std::shared_ptr<const Tokenizer> tokenizer;
};

// From the model file's header as rank 0 sent it.
absl::StatusOr<std::shared_ptr<const ModelInfo>> ReadModelInfo(std::string header, const std::string& file_name,
                                                               const std::string& sha256);

}  // namespace rondo::coordinator
