// Finds the files of tests/data and unpacks the gzipped ones; used by tests that need a model, a text or golden
// numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace rondo {

// The path of tests/data/`relative` in the source tree.
std::string TestDataPath(std::string_view relative);

// The whole of a file. NOT_FOUND naming the path where it cannot be read.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// Unpacks tests/data/`relative`, a .gz file, into this process' temporary folder (removed at exit) and returns the path
// of the unpacked file. Unpacking the same file twice gives the same path. Any thread.
absl::StatusOr<std::string> UnpackTestFile(std::string_view relative);

// The bytes of any gzip file, by full path.
absl::StatusOr<std::string> ReadGzip(const std::string& path);

// A folder of this process alone, removed at exit.
std::string TestTempDir();

// Folders and files that the repository does not ship: an environment variable's value, nothing where unset or empty.
std::optional<std::string> OutsideData();   // RONDO_TEST_DATA: vocab/, golden_ids/, texts/
std::optional<std::string> OutsideModel();  // RONDO_TEST_MODEL: SmolLM2-135M-Instruct.Q4_1.gguf

}  // namespace rondo
