#include "cli/npy_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace rondo::cli {
namespace {

class NpyWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "rondo-npy-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = (folder_ / "x.npy").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Contents() const {
    std::ifstream file(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  std::filesystem::path folder_;
  std::string path_;
};

std::string Floats(std::initializer_list<float> values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

// The bytes are written out by hand from NumPy's description of the format.
TEST_F(NpyWriterTest, WritesWhatNumpyReads) {
  auto writer = NpyWriter::Open(path_);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(0, 0, Floats({1, 2})).ok());
  ASSERT_TRUE((*writer)->Append(0, 2, Floats({3})).ok());
  ASSERT_TRUE((*writer)->Append(1, 0, Floats({4, 5, 6})).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE((*writer)->Finish().ok());
  const std::string file = Contents();
  std::string header =
      std::string("\x93NUMPY\x01\x00\x76\x00", 10) + "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  header.resize(127, ' ');
  header += '\n';
  EXPECT_EQ(file, header + Floats({1, 2, 3, 4, 5, 6}));
}

TEST_F(NpyWriterTest, NoStepsIsAnEmptyArray) {
  auto writer = NpyWriter::Open(path_);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_NE(Contents().find("'shape': (0, 0)"), std::string::npos);
}

TEST_F(NpyWriterTest, GapsAreRefusedAndNothingIsLeft) {
  {
    auto writer = NpyWriter::Open(path_);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Append(0, 0, Floats({1, 2})).ok());
    EXPECT_FALSE((*writer)->Append(0, 3, Floats({1})).ok());
    EXPECT_FALSE((*writer)->Append(2, 0, Floats({1})).ok());
    EXPECT_FALSE((*writer)->Append(0, 2, "abc").ok());
    ASSERT_TRUE((*writer)->Append(1, 0, Floats({1})).ok());
    EXPECT_FALSE((*writer)->Finish().ok()) << "the last row is short";
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST(NpyWriter, NamesAFolderThatIsNotThere) {
  const auto writer = NpyWriter::Open("/no/such/folder/x.npy");
  ASSERT_FALSE(writer.ok());
  EXPECT_NE(writer.status().message().find("/no/such/folder/x.npy"), absl::string_view::npos);
}

}  // namespace
}  // namespace rondo::cli
