// CheckModel: reads every weight and looks for values that no arithmetic survives.
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "model/gguf/llama_loader.h"
#include "model/gguf/vocabulary.h"

namespace rondo {
namespace {

uint16_t Half(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return bits;
}
// An exponent of all ones is infinity or NaN.
bool HalfIsFinite(const std::byte* at) { return (Half(at) & 0x7C00) != 0x7C00; }
bool BfloatIsFinite(const std::byte* at) { return (Half(at) & 0x7F80) != 0x7F80; }
bool FloatIsFinite(const std::byte* at) {
  float value;
  std::memcpy(&value, at, sizeof(value));
  return std::isfinite(value);
}

// Whether every float of one block is finite: the element itself, or the block's scale and minimum. The integers of a
// block cannot be wrong.
bool BlockIsFinite(WeightType type, const std::byte* block) {
  switch (type) {
    case WeightType::kF32:
      return FloatIsFinite(block);
    case WeightType::kBF16:
      return BfloatIsFinite(block);
    case WeightType::kF16:
    case WeightType::kQ4_0:
    case WeightType::kQ5_0:
    case WeightType::kQ8_0:
      return HalfIsFinite(block);
    case WeightType::kQ4_1:
    case WeightType::kQ5_1:
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      return HalfIsFinite(block) && HalfIsFinite(block + 2);
    case WeightType::kQ6_K:
      return HalfIsFinite(block + 208);  // the scale comes last
  }
  return false;
}

absl::Status CheckTensor(const GgufFile& file, const GgufTensor& tensor) {
  const WeightTypeInfo& info = *FindWeightType(tensor.type);
  const auto block_bytes = static_cast<uint64_t>(info.block_bytes);
  for (uint64_t block = 0; block < tensor.bytes / block_bytes; ++block) {
    if (BlockIsFinite(tensor.type, tensor.data + block * block_bytes)) continue;
    const uint64_t element = block * static_cast<uint64_t>(info.block_elements);
    const auto row_length = static_cast<uint64_t>(tensor.dim[0]);
    return absl::DataLossError(absl::StrCat(file.name(), ": tensor ", Sv(tensor.name), " (", Sv(info.name),
                                            ") has a value that is infinite or not a number ",
                                            info.quantised ? "as block scale" : "", " in row ", element / row_length,
                                            " at column ", element % row_length));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckModel(const LoadedModel& model) {
  for (const GgufTensor& tensor : model.file->tensors()) {
    if (absl::Status status = CheckTensor(*model.file, tensor); !status.ok()) return status;
  }
  const absl::StatusOr<Vocabulary> vocabulary = ReadVocabulary(*model.file);
  if (!vocabulary.ok()) return vocabulary.status();
  if (static_cast<int64_t>(vocabulary->tokens.size()) != model.config.vocab) {
    return absl::InvalidArgumentError(absl::StrCat(model.file->name(), ": the vocabulary has ",
                                                   vocabulary->tokens.size(), " tokens, the embedding ",
                                                   model.config.vocab, " rows"));
  }
  return absl::OkStatus();
}

}  // namespace rondo
