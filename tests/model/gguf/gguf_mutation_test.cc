// Every truncation and many random changes of a good file: an error or a good file, never a crash. Run it under the
// address sanitizer too.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "model/gguf/llama_loader.h"
#include "model/gguf/vocabulary.h"
#include "tests/model/gguf/tiny_llama.h"

namespace rondo {
namespace {

// Opens, loads, scans, and reads every value, as a worker would.
bool Use(const absl::StatusOr<std::shared_ptr<const GgufFile>>& file) {
  if (!file.ok()) return false;
  for (const std::string_view key : (*file)->keys()) {
    (void)(*file)->GetStrings(key);
    (void)(*file)->GetI32s(key);
    (void)(*file)->GetF32s(key);
    (void)(*file)->GetString(key);
  }
  (void)ReadVocabulary(**file);
  const auto model = LoadModel(*file);
  if (!(*file)->has_data()) return LoadConfig(**file).ok();
  return model.ok() && CheckModel(*model).ok();
}

void Write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST(GgufMutations, EveryTruncationIsRefused) {
  const std::string good = GgufWriter()
                               .String("general.architecture", "llama")
                               .Strings("tokens", {"a", "b"})
                               .I32s("numbers", {1, 2, 3})
                               .F32Tensor("a", {8}, std::vector<float>(8, 1))
                               .F32Tensor("b", {4, 2}, std::vector<float>(8, 2))
                               .Build();
  const std::string path = TestTempDir() + "/truncated.gguf";
  Write(path, good);
  ASSERT_TRUE(GgufFile::Open(path).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    Write(path, std::string_view(good).substr(0, size));
    const absl::Status status = GgufFile::Open(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << size << " of " << good.size();
  }
}

TEST(GgufMutations, RandomChangesNeverCrash) {
  const std::string good = TinyLlama().Writer().Build();
  const size_t header = TinyLlama().Writer().Header().size();
  const std::string path = TestTempDir() + "/mutated.gguf";
  Write(path, good);
  ASSERT_TRUE(Use(GgufFile::Open(path)));
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (size_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % header;
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
        case 1:
          bytes[at] = static_cast<char>(random());
          break;
        case 2:  // a length or a count made huge
          bytes.replace(at, std::min<size_t>(8, header - at), std::min<size_t>(8, header - at), '\xFF');
          break;
        default:
          bytes.erase(at, 1 + random() % 16);
      }
    }
    if (round % 20 == 0) {  // with data, from the disk; the others in memory, header alone
      Write(path, bytes);
      refused += Use(GgufFile::Open(path)) ? 0 : 1;
    } else {
      refused += Use(GgufFile::FromHeader(bytes.substr(0, header), "mutated")) ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace rondo
