// Reads the header of a .safetensors file without trusting a byte of it, and finds one tensor in it.
// https://github.com/huggingface/safetensors#format
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cli/tensor_view.h"

namespace rondo::cli {

// `file` is the whole file. The header is checked as a whole: no name twice, each tensor's bytes those of its shape and
// type, and together all of the file's, without overlap or hole. INVALID_ARGUMENT says what is wrong; NOT_FOUND names
// the tensors there are.
absl::StatusOr<ArrayHeader> ReadSafetensorsHeader(absl::Span<const uint8_t> file, const std::string& name);

}  // namespace rondo::cli
