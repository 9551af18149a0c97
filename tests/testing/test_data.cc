#include "tests/testing/test_data.h"

#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/text.h"

namespace rondo {
namespace {

std::optional<std::string> FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

// Removes the folder when the process ends normally.
struct TempDir {
  std::string path;
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rondo-test-XXXXXX").string();
    RONDO_CHECK(mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

std::string TestDataPath(std::string_view relative) {
  return absl::StrCat(RONDO_TEST_SOURCE_DIR, "/tests/data/", Sv(relative));
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

absl::StatusOr<std::string> ReadGzip(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::string bytes;
  char chunk[1 << 16];
  int got = 0;
  while ((got = gzread(file, chunk, sizeof(chunk))) > 0) bytes.append(chunk, static_cast<size_t>(got));
  const bool whole = got == 0 && gzclose(file) == Z_OK;
  if (!whole) return absl::DataLossError(absl::StrCat("cannot unpack ", path));
  return bytes;
}

std::string TestTempDir() {
  static const TempDir dir;
  return dir.path;
}

absl::StatusOr<std::string> UnpackTestFile(std::string_view relative) {
  static std::mutex mutex;
  static std::map<std::string, std::string> unpacked;
  const std::lock_guard<std::mutex> lock(mutex);
  const std::string key(relative);
  if (const auto known = unpacked.find(key); known != unpacked.end()) return known->second;
  absl::StatusOr<std::string> bytes = ReadGzip(TestDataPath(relative));
  if (!bytes.ok()) return bytes.status();
  const std::filesystem::path folder = std::filesystem::path(TestTempDir()) / std::to_string(unpacked.size());
  std::filesystem::create_directories(folder);
  const std::string path = (folder / std::filesystem::path(key).stem()).string();
  std::ofstream out(path, std::ios::binary);
  out << *bytes;
  if (!out.flush()) return absl::InternalError(absl::StrCat("cannot write ", path));
  unpacked[key] = path;
  return path;
}

std::optional<std::string> OutsideData() { return FromEnvironment("RONDO_TEST_DATA"); }
std::optional<std::string> OutsideModel() { return FromEnvironment("RONDO_TEST_MODEL"); }

}  // namespace rondo
