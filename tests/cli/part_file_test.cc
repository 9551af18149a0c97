// Where results are written: what they may replace, what they must not, and that two of one name do not meet.
#include "cli/part_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/npy_rows.h"

namespace rondo::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PartFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "rondo-part-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string In(const char* name) const { return (folder_ / name).string(); }
  int Files() const { return static_cast<int>(std::distance(fs::directory_iterator(folder_), {})); }
  static std::string Refusal(const std::string& path) {
    EXPECT_FALSE(PartFile::Create(path).ok()) << path;
    return std::string(CheckResultPath(path).message());
  }

  fs::path folder_;
};

TEST_F(PartFileTest, OnlyARegularFileIsReplaced) {
  std::ofstream(In("old")) << "old";
  EXPECT_TRUE(CheckResultPath(In("old")).ok());
  EXPECT_TRUE(CheckResultPath(In("new")).ok());
  fs::create_symlink("old", In("link"));
  fs::create_symlink("nothing", In("dangling"));
  ASSERT_EQ(mkfifo(In("pipe").c_str(), 0600), 0);
  const int before = Files();
  EXPECT_THAT(Refusal(In("link")), HasSubstr("link is a symbolic link: name the file"));
  EXPECT_THAT(Refusal(In("dangling")), HasSubstr("is a symbolic link"));
  EXPECT_THAT(Refusal(In("pipe")), HasSubstr("is a pipe"));
  EXPECT_THAT(Refusal(folder_.string()), HasSubstr("is a folder: name a file in it"));
  EXPECT_THAT(Refusal(In("nothing/")), HasSubstr("name of a folder"));
  EXPECT_THAT(Refusal("/dev/null"), HasSubstr("/dev/null is a device"));
  EXPECT_THAT(Refusal(""), HasSubstr("empty"));
  EXPECT_THAT(Refusal(In("missing/x.npy")), HasSubstr("No such file or directory"));
  EXPECT_THAT(Refusal(In("old/x.npy")), HasSubstr("Not a directory"));
  EXPECT_EQ(Files(), before);
}

TEST_F(PartFileTest, AFolderThatTakesNoFilesIsNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT(Refusal(In("x.npy")), HasSubstr(folder_.string() + ": Permission denied"));
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(PartFileTest, WhatTookTheNameMeanwhileStays) {
  auto part = PartFile::Create(In("x"));
  ASSERT_TRUE(part.ok()) << part.status();
  fs::create_symlink("/dev/null", In("x"));
  EXPECT_FALSE((*part)->Finish().ok());
  part->reset();
  EXPECT_TRUE(fs::is_symlink(In("x")));
  EXPECT_EQ(Files(), 1);
}

TEST_F(PartFileTest, TwoOfOneNameAreBothWhole) {
  auto first = NpyRows::Create(In("o.npy"), {2, 1});
  auto second = NpyRows::Create(In("o.npy"), {2, 1});
  ASSERT_TRUE(first.ok() && second.ok());
  for (const auto& [file, value] : {std::pair(first->get(), 1.0f), std::pair(second->get(), 2.0f)}) {
    const float rows[2] = {value, value};
    ASSERT_EQ(pwrite(file->rows().fd, rows, sizeof(rows), file->rows().begin), 8);
  }
  EXPECT_EQ((*first)->ReadRow(1)->at(0), 1);
  EXPECT_EQ((*second)->ReadRow(1)->at(0), 2);
  ASSERT_TRUE((*first)->Finish().ok());
  second->reset();  // as if it had failed
  EXPECT_EQ(Files(), 1);
  EXPECT_EQ(fs::file_size(In("o.npy")), 128u + 8u);
}

TEST_F(PartFileTest, TheSameFileIsKnownByAnySpelling) {
  fs::create_directory(In("sub"));
  EXPECT_TRUE(SameResultPath(In("x"), In("sub/../x")));
  EXPECT_TRUE(SameResultPath("x", "./x"));
  EXPECT_FALSE(SameResultPath(In("x"), In("sub/x")));
  EXPECT_FALSE(SameResultPath(In("x"), In("y")));
}

}  // namespace
}  // namespace rondo::cli
