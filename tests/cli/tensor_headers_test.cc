// The readers of .npy and .safetensors against good files, lies, every truncation and random damage: one clear error
// each, no crash, no allocation that the file does not justify.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/npy_header.h"
#include "cli/safetensors_header.h"

namespace rondo::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string Npy(const std::string& dictionary, size_t data_bytes, int version = 1) {
  std::string text = dictionary + "\n";
  std::string file("\x93NUMPY", 6);
  file += static_cast<char>(version);
  file += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(text.size() >> (8 * i));
  return file + text + std::string(data_bytes, '\1');
}

std::string Error(const absl::StatusOr<ArrayHeader>& header) {
  EXPECT_FALSE(header.ok());
  return header.ok() ? "" : std::string(header.status().message());
}

TEST(NpyHeader, TakesWhatNumpyWrites) {
  for (int version = 1; version <= 3; ++version) {
    const std::string file = Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3, 2), }", 120, version);
    const auto header = ReadNpyHeader(Bytes(file));
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->type, FileType::kF32);
    EXPECT_THAT(header->shape, ElementsAre(5, 3, 2));
    EXPECT_EQ(header->begin, file.size() - 120);
    EXPECT_EQ(header->bytes, 120u);
  }
  EXPECT_EQ(ReadNpyHeader(Bytes(Npy("{'descr': '<f2', 'fortran_order': False, 'shape': (4,), }", 8)))->type,
            FileType::kF16);
  EXPECT_EQ(ReadNpyHeader(Bytes(Npy("{'descr': '|V2', 'fortran_order': False, 'shape': (4,), }", 8)))->type,
            FileType::kBf16);
  EXPECT_EQ(ReadNpyHeader(Bytes(Npy("{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }", 32)))->type,
            FileType::kI64);
  // Python 2's long integers, no comma at the end, another order, no dimension, an empty array.
  EXPECT_TRUE(ReadNpyHeader(Bytes(Npy("{'shape': (5L, 1L), 'fortran_order': False, 'descr': \"<f4\"}", 20))).ok());
  EXPECT_EQ(ReadNpyHeader(Bytes(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4)))->bytes, 4u);
  EXPECT_EQ(ReadNpyHeader(Bytes(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3)}", 0)))->bytes, 0u);
  // Fortran order is the same thing where at most one dimension is longer than 1.
  EXPECT_TRUE(ReadNpyHeader(Bytes(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 5)}", 20))).ok());
}

TEST(NpyHeader, RefusesWithTheReason) {
  const auto error = [](const std::string& dictionary, size_t bytes = 1000) {
    return Error(ReadNpyHeader(Bytes(Npy(dictionary, bytes))));
  };
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': True, 'shape': (5, 3)}"), HasSubstr("ascontiguousarray"));
  EXPECT_THAT(error("{'descr': '>f4', 'fortran_order': False, 'shape': (5,)}"), HasSubstr("'>f4'"));
  EXPECT_THAT(error("{'descr': '<f8', 'fortran_order': False, 'shape': (5,)}"), HasSubstr("astype"));
  EXPECT_THAT(error("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (5,)}"), HasSubstr("records"));
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': False, 'shape': (251,)}"), HasSubstr("needs 1004 bytes"));
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
              HasSubstr("more bytes than a file can"));
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387904, 4)}", 0),
              HasSubstr("more bytes than a file can"));
  for (const char* text : {"", "{", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False}",
                           "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (2,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
                           "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}"}) {
    EXPECT_THAT(error(text), HasSubstr("malformed")) << text;
  }
  EXPECT_THAT(Error(ReadNpyHeader(Bytes("PK\x03\x04 this is a zip"))), HasSubstr("does not begin"));
  EXPECT_THAT(Error(ReadNpyHeader(Bytes(Npy("{}", 0, 4)))), HasSubstr("version is 4"));
}

std::string Safetensors(const std::string& header, size_t data_bytes) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + std::string(data_bytes, '\1');
}

constexpr char kTwo[] = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                        R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})";

TEST(SafetensorsHeader, FindsATensor) {
  const std::string file = Safetensors(kTwo, 32);
  const auto a = ReadSafetensorsHeader(Bytes(file), "a");
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_THAT(a->shape, ElementsAre(2, 3));
  EXPECT_EQ(a->begin, file.size() - 32);
  const auto b = ReadSafetensorsHeader(Bytes(file), "b");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b->type, FileType::kBf16);
  EXPECT_EQ(b->begin, file.size() - 8);
  const auto none = ReadSafetensorsHeader(Bytes(file), "c");
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("there are: a, b"));
  EXPECT_FALSE(ReadSafetensorsHeader(Bytes(file), "__metadata__").ok());
}

TEST(SafetensorsHeader, RefusesWithTheReason) {
  const auto error = [](const std::string& header, size_t bytes) {
    return Error(ReadSafetensorsHeader(Bytes(Safetensors(header, bytes)), "a"));
  };
  const auto one = [](const char* type, const char* shape, const char* offsets) {
    return absl::StrCat("{\"a\":{\"dtype\":\"", type, "\",\"shape\":", shape, ",\"data_offsets\":", offsets, "}}");
  };
  EXPECT_THAT(error(one("F32", "[2]", "[8,0]"), 8), HasSubstr("[8, 0] do not lie"));
  EXPECT_THAT(error(one("F32", "[2]", "[0,16]"), 8), HasSubstr("[0, 16] do not lie"));
  EXPECT_THAT(error(one("F32", "[4294967296,4294967296]", "[0,8]"), 8), HasSubstr("more bytes than a file can"));
  EXPECT_THAT(error(one("F32", "[0,4294967296,4294967296]", "[0,0]"), 0), HasSubstr("more bytes than a file can"));
  EXPECT_THAT(error(one("F33", "[2]", "[0,8]"), 8), HasSubstr("unknown type 'F33'"));
  EXPECT_THAT(error(one("F32", "[3]", "[0,8]"), 8), HasSubstr("has 12 bytes, data_offsets give 8"));
  EXPECT_THAT(error(one("F32", "[2]", "[0,8]"), 9), HasSubstr("tensors have 8 bytes, the file has 9"));
  EXPECT_THAT(error(one("F64", "[1]", "[0,8]"), 8), HasSubstr("type F64"));
  EXPECT_THAT(error(one("F32", "[-2]", "[0,8]"), 8), HasSubstr("a negative number"));
  EXPECT_THAT(error(one("F32", "[2.0]", "[0,8]"), 8), HasSubstr("a fraction"));
  EXPECT_THAT(error(one("F32", "[18446744073709551615]", "[0,8]"), 8), HasSubstr("dimension too large"));
  EXPECT_THAT(error(one("F32", "[[2]]", "[0,8]"), 8), HasSubstr("an array"));
  EXPECT_THAT(error(one("F32", "[2]", "[0,4,8]"), 8), HasSubstr("more than two"));
  EXPECT_THAT(error(one("F32", "[2]", "[0]"), 8), HasSubstr("lacks"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{}})", 8), HasSubstr("twice"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), HasSubstr("twice"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                    12),
              HasSubstr("inside the one before"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}})",
                    20),
              HasSubstr("ends at 8"));
  EXPECT_THAT(error("{" + std::string(100, '['), 0), HasSubstr("no JSON"));
  EXPECT_THAT(error(R"({"a":{"x":)" + std::string(100000, '['), 0), HasSubstr("unknown field 'x'"));
  for (const uint64_t length : {~uint64_t{0}, uint64_t{1} << 40, uint64_t{0}}) {
    std::string file;
    for (int i = 0; i < 8; ++i) file += static_cast<char>(length >> (8 * i));
    EXPECT_THAT(Error(ReadSafetensorsHeader(Bytes(file + "{}"), "a")), HasSubstr("its header")) << length;
  }
}

// Whatever is done to a good file, the answer is an error or a tensor that lies inside the file.
template <typename Read>
void Damage(const std::string& good, Read read) {
  const auto check = [&](const std::string& file) {
    const absl::StatusOr<ArrayHeader> header = read(file);
    if (!header.ok()) {
      EXPECT_FALSE(header.status().message().empty());
      return;
    }
    ASSERT_LE(header->begin, file.size());
    ASSERT_LE(header->bytes, file.size() - header->begin);
  };
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(read(good.substr(0, size)).ok()) << size;
    check(good.substr(0, size));
  }
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string file = good;
    for (uint64_t n = 1 + random() % 4; n > 0; --n) file[random() % file.size()] = static_cast<char>(random());
    check(file);
  }
}

TEST(TensorHeaders, SurviveDamage) {
  Damage(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3, 2), }", 120),
         [](const std::string& file) { return ReadNpyHeader(Bytes(file)); });
  Damage(Safetensors(kTwo, 32), [](const std::string& file) { return ReadSafetensorsHeader(Bytes(file), "b"); });
}

}  // namespace
}  // namespace rondo::cli
