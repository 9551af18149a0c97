// Good files: what was written is what is read.
#include "model/gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/model/gguf/tiny_llama.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/test_data.h"

namespace rondo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string WriteFile(const std::string& name, const std::string& bytes) {
  const std::string path = TestTempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(GgufFile, ReadsEveryTypeOfValue) {
  GgufWriter writer;
  writer.String("s", "text").U32("u", 7).F32("f", 1.5f).Bool("b", true).Strings("ss", {"x", "", "yz"});
  writer.I32s("is", {-1, 2}).F32s("fs", {0.5f}).Strings("none", {});
  for (const uint32_t type : {0u, 1u}) writer.Raw("byte" + std::to_string(type), type, "\x05");
  for (const uint32_t type : {2u, 3u}) writer.Raw("short" + std::to_string(type), type, std::string(2, '\0'));
  for (const uint32_t type : {10u, 11u, 12u}) writer.Raw("long" + std::to_string(type), type, std::string(8, '\0'));
  const auto file = GgufFile::FromHeader(writer.Header(), "h").value();
  EXPECT_EQ(file->GetString("s").value(), "text");
  EXPECT_EQ(file->GetU32("u").value(), 7u);
  EXPECT_EQ(file->GetF32("f").value(), 1.5f);
  EXPECT_TRUE(file->GetBool("b").value());
  EXPECT_THAT(file->GetStrings("ss").value(), ElementsAre("x", "", "yz"));
  EXPECT_THAT(file->GetI32s("is").value(), ElementsAre(-1, 2));
  EXPECT_THAT(file->GetF32s("fs").value(), ElementsAre(0.5f));
  EXPECT_THAT(file->GetStrings("none").value(), ElementsAre());
  EXPECT_EQ(file->keys().size(), 15u);
  EXPECT_EQ(file->FindU32("absent").value(), std::nullopt);
  EXPECT_EQ(file->FindU32("u").value(), 7u);
}

TEST(GgufFile, AnotherTypeIsAnErrorWithTheKey) {
  const auto file = GgufFile::FromHeader(GgufWriter().String("k", "v").I32s("a", {1}).Header(), "name.gguf").value();
  const absl::Status wrong = file->GetU32("k").status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(wrong.message(), "name.gguf: key k has type string; u32 is expected");
  EXPECT_EQ(file->FindBool("k").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file->GetF32s("a").status().message(),
            "name.gguf: key a has type array of i32; an array of f32 is expected");
  EXPECT_EQ(file->GetF32s("k").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file->GetU32("a").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file->GetU32("absent").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(file->GetU32("absent").status().message(), "name.gguf: key absent is missing");
}

TEST(GgufFile, MapsTensorsInTheirPlaces) {
  for (const uint32_t alignment : {8u, 32u, 64u, 4096u}) {
    GgufWriter writer;
    writer.Alignment(alignment).F32Tensor("a", {3}, {1, 2, 3}).F32Tensor("b", {2, 2}, {4, 5, 6, 7});
    writer.Tensor("q", {64, 2}, WeightType::kQ8_0, std::string(136, 'q'));
    const auto file = GgufFile::Open(WriteFile("aligned.gguf", writer.Build())).value();
    const GgufTensor& b = *file->FindTensor("b");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data) % alignment, 0u);
    EXPECT_EQ(reinterpret_cast<const float*>(b.data)[3], 7);
    EXPECT_EQ(ShapeText(b), "[2, 2]");
    EXPECT_EQ(file->FindTensor("q")->bytes, 136u);
    EXPECT_EQ(static_cast<char>(file->FindTensor("q")->data[135]), 'q');
    EXPECT_EQ(file->FindTensor("c"), nullptr);
    EXPECT_EQ(file->tensors().size(), 3u);
  }
}

TEST(GgufFile, TheHeaderAloneParsesAgain) {
  const std::string path = TinyLlama().Write();
  const auto file = GgufFile::Open(path).value();
  const std::string header(reinterpret_cast<const char*>(file->header_bytes().data()), file->header_bytes().size());
  EXPECT_EQ(header, TinyLlama().Writer().Header());
  const auto again = GgufFile::FromHeader(header, "again").value();
  EXPECT_FALSE(again->has_data());
  EXPECT_EQ(again->keys(), file->keys());
  ASSERT_EQ(again->tensors().size(), file->tensors().size());
  for (size_t i = 0; i < file->tensors().size(); ++i) {
    EXPECT_EQ(again->tensors()[i].name, file->tensors()[i].name);
    EXPECT_EQ(again->tensors()[i].bytes, file->tensors()[i].bytes);
    EXPECT_EQ(again->tensors()[i].data, nullptr);
  }
  EXPECT_EQ(again->header_bytes().size(), header.size());
}

TEST(GgufFile, TensorsMayLieInAnyOrderWithGaps) {
  std::string file = GgufWriter().RawTensorInfo("late", 1, {8}, 0, 64).RawTensorInfo("early", 1, {8}, 0, 0).Build();
  file += std::string(96, '\0');
  EXPECT_TRUE(GgufFile::Open(WriteFile("gaps.gguf", file)).ok());
}

TEST(GgufFile, NamesFilesItCannotOpen) {
  EXPECT_EQ(GgufFile::Open("/no/such/file.gguf").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(GgufFile::Open("/no/such/file.gguf").status().message()), HasSubstr("/no/such/file.gguf"));
  EXPECT_EQ(GgufFile::Open(TestTempDir()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(GgufFile::Open(WriteFile("empty.gguf", "")).status().message()), HasSubstr("empty"));
}

TEST(FileSha256, IsThePublishedDigest) {
  EXPECT_EQ(FileSha256(WriteFile("abc", "abc")).value(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(FileSha256("/no/such/file").status().code(), absl::StatusCode::kNotFound);
  const auto model = OutsideModel();
  if (model.has_value()) {
    EXPECT_EQ(FileSha256(*model).value(), "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
  }
}

}  // namespace
}  // namespace rondo
