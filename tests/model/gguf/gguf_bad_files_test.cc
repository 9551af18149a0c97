// Bad files, each built by hand, each with one clear error. The kinds are those that crashed or emptied the memory of
// other readers of the format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "model/gguf/gguf_file.h"
#include "tests/model/gguf/largest_allocation.h"
#include "tests/testing/gguf_writer.h"
#include "tests/testing/test_data.h"

namespace rondo {
namespace {

using testing::HasSubstr;

struct BadFile {
  const char* name;
  std::string bytes;
  const char* message;  // a part of the error's text
};

std::string Head(uint32_t version, uint64_t tensors, uint64_t keys) {
  return "GGUF" + LittleEndian(version) + LittleEndian(tensors) + LittleEndian(keys);
}
std::string Padded(const std::string& bytes) { return bytes + std::string(200, '\0'); }
std::string Tensor(uint32_t n_dims, std::vector<uint64_t> dims, uint32_t type = 0, uint64_t offset = 0,
                   const std::string& name = "t") {
  return GgufWriter().RawTensorInfo(name, n_dims, std::move(dims), type, offset).Build() + std::string(256, '\0');
}
std::string Value(uint32_t type, const std::string& bytes) {
  return Padded(GgufWriter().Raw("k", type, bytes).Header());
}
std::string Align(uint32_t value) {
  return GgufWriter().U32("general.alignment", value).RawTensorInfo("t", 1, {8}, 0, 0).Build() + std::string(256, '\0');
}
std::string Array(uint32_t element, uint64_t count, const std::string& bytes) {
  return Value(9, LittleEndian(element) + LittleEndian(count) + bytes);
}

std::vector<BadFile> BadFiles() {
  constexpr uint64_t k2To32 = uint64_t{1} << 32;
  return {
      {"header_bad_magic", "GGML" + Padded(""), "not a GGUF file"},
      {"header_short", "GGU", "ends inside the magic"},
      {"header_no_version", "GGUF", "ends inside the version"},
      {"header_bad_version_0", Padded(Head(0, 0, 0)), "version 0"},
      {"header_bad_version_1", Padded(Head(1, 0, 0)), "version 1"},
      {"header_bad_version_future", Padded(Head(4, 0, 0)), "version 4"},
      {"header_big_endian", Padded(Head(0x03000000, 0, 0)), "big-endian"},
      {"header_bad_n_tensors", Padded(Head(3, UINT64_MAX, 0)), "18446744073709551615 tensors"},
      {"header_bad_n_kv", Padded(Head(3, 0, UINT64_MAX)), "18446744073709551615 keys"},
      {"header_2_to_40_keys", Padded(Head(3, 0, uint64_t{1} << 40)), "1099511627776 keys"},
      {"header_2_to_60_tensors", Padded(Head(3, uint64_t{1} << 60, 0)), "tensors"},
      {"kv_bad_key_size", Padded(Head(3, 0, 1) + LittleEndian(uint64_t{1} << 63)), "9223372036854775808 bytes"},
      {"kv_key_too_long", Padded(Head(3, 0, 1) + GgufString(std::string(65536, 'k')) + LittleEndian<uint32_t>(4)),
       "limit is 65535"},
      {"kv_empty_key", Padded(Head(3, 0, 1) + GgufString("")), "is empty"},
      {"kv_key_not_ascii", Padded(Head(3, 0, 1) + GgufString("k\xC3\xA9")), "printable ASCII"},
      {"kv_bad_type", Value(9999, ""), "unknown value type 9999"},
      {"kv_bad_array_type", Array(9999, 1, ""), "array element type 9999"},
      {"kv_bad_array_type_13", Array(13, UINT64_MAX, ""), "array element type 13"},
      {"kv_nested_array", Array(9, 1, LittleEndian<uint32_t>(4) + LittleEndian<uint64_t>(0)), "array of arrays"},
      {"kv_bad_string_size", Value(8, LittleEndian(uint64_t{1} << 63)), "9223372036854775808 bytes"},
      {"kv_string_size_wraps", Value(8, LittleEndian(UINT64_MAX)), "18446744073709551615 bytes"},
      {"kv_array_too_long", Array(4, uint64_t{1} << 62, ""), "claims 4611686018427387904 values"},
      {"kv_array_of_empty_strings", Array(8, uint64_t{1} << 40, ""), "claims 1099511627776 values"},
      {"kv_bool_2", Value(7, "\x02"), "truth value 2"},
      {"kv_bool_array", Array(7, 3, std::string("\x01\x00\xFF", 3)), "truth value 255"},
      {"kv_duplicate_key", Padded(GgufWriter().U32("twice", 1).U32("twice", 1).Header()), "twice appears twice"},
      {"kv_alignment_0", Align(0), "general.alignment is 0"},
      {"kv_alignment_3", Align(3), "general.alignment is 3"},
      {"kv_alignment_4", Align(4), "general.alignment is 4"},
      {"kv_alignment_2_to_31", Align(1u << 31), "general.alignment is 2147483648"},
      {"kv_alignment_wrong_type",
       Padded(GgufWriter().Raw("general.alignment", 10, LittleEndian<uint64_t>(32)).Header()),
       "general.alignment has type u64"},
      {"tensors_bad_name_size", Padded(Head(3, 1, 0) + LittleEndian(uint64_t{1} << 63)), "9223372036854775808 bytes"},
      {"tensors_name_64", Tensor(1, {8}, 0, 0, std::string(64, 'n')), "64 bytes; the limit is 63"},
      {"tensors_no_name", Tensor(1, {8}, 0, 0, ""), "no name"},
      {"tensors_n_dims_0", Tensor(0, {}), "0 dimensions"},
      {"tensors_n_dims_5", Tensor(5, {1, 1, 1, 1, 1}), "5 dimensions"},
      {"tensors_n_dims_max", Tensor(UINT32_MAX, {8}), "4294967295 dimensions"},
      {"tensors_dim_0", Tensor(2, {8, 0}), "dimension 1 of tensor t is 0"},
      {"tensors_negative_dim", Tensor(1, {uint64_t{1} << 63}), "more than 2^62"},
      {"tensors_2_to_32_squared", Tensor(2, {k2To32, k2To32}), "more than 2^62"},
      {"tensors_2_to_62_by_4", Tensor(2, {uint64_t{1} << 62, 4}), "more than 2^62"},
      {"tensors_product_wraps_to_small", Tensor(4, {k2To32, k2To32, 1, 8}), "more than 2^62"},
      {"tensors_bytes_wrap", Tensor(2, {uint64_t{1} << 31, uint64_t{1} << 31}), "64 bits"},
      {"tensors_larger_than_file", Tensor(2, {1 << 20, 1 << 20}), "ends past the file's"},
      {"tensors_bad_type", Tensor(1, {256}, 9999), "unknown type 9999"},
      {"tensors_removed_type", Tensor(1, {256}, 4), "Q4_2 (removed)"},
      {"tensors_unread_type", Tensor(1, {256}, 23), "type IQ4_XS (23)"},
      {"tensors_row_576_q4_k", Tensor(2, {576, 2}, 12), "576 elements, no multiple of the 256"},
      {"tensors_row_48_q8_0", Tensor(2, {48, 2}, 8), "48 elements, no multiple of the 32"},
      {"tensors_bad_offset", Tensor(1, {8}, 0, 8), "no multiple of the file's alignment 32"},
      {"tensors_offset_past_end", Tensor(1, {8}, 0, 4096), "ends past the file's"},
      {"tensors_offset_wraps", Tensor(1, {8}, 0, UINT64_MAX - 31), "64 bits"},
      {"tensors_duplicate_name",
       GgufWriter().F32Tensor("t", {8}, std::vector<float>(8)).F32Tensor("t", {8}, std::vector<float>(8)).Build(),
       "tensor t appears twice"},
      {"tensors_overlap",
       GgufWriter().RawTensorInfo("a", 1, {16}, 0, 0).RawTensorInfo("b", 1, {8}, 0, 32).Build() + std::string(64, '\0'),
       "overlap"},
      {"tensors_same_place",
       GgufWriter().RawTensorInfo("a", 1, {8}, 0, 0).RawTensorInfo("b", 1, {8}, 0, 0).Build() + std::string(64, '\0'),
       "overlap"},
      {"data_not_enough", GgufWriter().RawTensorInfo("t", 1, {8}, 0, 0).Build() + std::string(31, '\0'),
       "ends past the file's 31 bytes"},
      {"data_none", GgufWriter().RawTensorInfo("t", 1, {8}, 0, 0).Header(), "ends past the file's 0 bytes"},
  };
}

class BadGguf : public testing::TestWithParam<BadFile> {};

TEST_P(BadGguf, HasOneClearError) {
  const std::string path = TestTempDir() + "/" + GetParam().name + ".gguf";
  std::ofstream(path, std::ios::binary) << GetParam().bytes;
  const absl::Status status = GgufFile::Open(path).status();
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(status.code() == absl::StatusCode::kInvalidArgument || status.code() == absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
  EXPECT_THAT(std::string(status.message()), testing::StartsWith(path + ": "));
}
INSTANTIATE_TEST_SUITE_P(All, BadGguf, testing::ValuesIn(BadFiles()),
                         [](const testing::TestParamInfo<BadFile>& info) { return std::string(info.param.name); });

// No count in a file of a few hundred bytes may make the reader allocate by it. (One of the files is 64 KB of key.)
TEST(BadGgufMemory, NoAllocationIsLargerThanTheFileExplains) {
  for (const BadFile& file : BadFiles()) {
    std::string bytes = file.bytes;
    ForgetAllocations();
    const absl::Status status = GgufFile::FromHeader(std::move(bytes), file.name).status();
    EXPECT_LT(LargestAllocation(), 4096 + 4 * file.bytes.size()) << file.name << ": " << status;
  }
}

}  // namespace
}  // namespace rondo
