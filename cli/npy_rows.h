// A .npy file of float32 rows that arrive in any order: the attend command's results.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/attend_transfer.h"
#include "cli/part_file.h"

namespace rondo::cli {

// The data get their name in Finish; destroyed before that, nothing is left.
class NpyRows {
 public:
  // Takes the disk space at once, so that a full disk is found before anything is computed.
  static absl::StatusOr<std::unique_ptr<NpyRows>> Create(const std::string& path, const std::vector<int64_t>& shape);
  NpyRows(const NpyRows&) = delete;
  NpyRows& operator=(const NpyRows&) = delete;

  RowFile rows() const { return rows_; }
  // SHA-256 of the float32 bytes, all rows in order, once they are there; lower-case hex.
  absl::StatusOr<std::string> Digest() const;
  // Element i of the data.
  absl::StatusOr<std::vector<float>> ReadRow(int64_t row) const;
  absl::Status Finish() { return file_->Finish(); }

 private:
  NpyRows() = default;

  std::unique_ptr<PartFile> file_;
  RowFile rows_;
  uint64_t bytes_ = 0;
};

}  // namespace rondo::cli
