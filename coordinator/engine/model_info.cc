#include "coordinator/engine/model_info.h"

#include <utility>

#include "model/gguf/gguf_file.h"
#include "model/gguf/llama_loader.h"

namespace rondo::coordinator {

absl::StatusOr<std::shared_ptr<const ModelInfo>> ReadModelInfo(std::string header, const std::string& file_name,
                                                               const std::string& sha256) {
  absl::StatusOr<std::shared_ptr<const GgufFile>> file = GgufFile::FromHeader(std::move(header), file_name);
  if (!file.ok()) return file.status();
  absl::StatusOr<ModelConfig> config = LoadConfig(**file);
  if (!config.ok()) return config.status();
  absl::StatusOr<std::shared_ptr<const Tokenizer>> tokenizer = Tokenizer::FromGguf(**file);
  if (!tokenizer.ok()) return tokenizer.status();
  auto info = std::make_shared<ModelInfo>();
  info->name = config->name;
  info->sha256 = sha256;
  info->context = config->context;
  info->tokenizer = *std::move(tokenizer);
  return std::shared_ptr<const ModelInfo>(std::move(info));
}

}  // namespace rondo::coordinator
