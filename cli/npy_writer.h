// Writes the logits of a job as a NumPy .npy file while they arrive: float32 [steps, vocabulary], little-endian.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/part_file.h"

namespace rondo::cli {

// The number of rows and their length are known only at the end, so the header (128 bytes, the least that NumPy pads
// to) is written last. The data get their name in Finish; destroyed before that, nothing is left.
class NpyWriter {
 public:
  static absl::StatusOr<std::unique_ptr<NpyWriter>> Open(const std::string& path);
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  // Elements [offset, offset + n) of row `step`, as raw float32 bytes. Rows and pieces come in order, without gaps;
  // DATA_LOSS naming the numbers otherwise.
  absl::Status Append(uint64_t step, uint64_t offset, std::string_view bytes);

  // Writes the header, closes, and gives the file its name.
  absl::Status Finish();

  uint64_t rows() const;

 private:
  NpyWriter(std::unique_ptr<PartFile> part, std::FILE* file) : part_(std::move(part)), file_(file) {}

  std::unique_ptr<PartFile> part_;
  std::FILE* file_;
  uint64_t row_length_ = 0;  // known once the first row is complete
  uint64_t step_ = 0;
  uint64_t filled_ = 0;  // elements of row step_
};

}  // namespace rondo::cli
