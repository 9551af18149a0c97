// What the CUDA attention launchers refuse, and what they say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/attention/attention.h"

namespace rondo::cuda {
namespace {

using testing::HasSubstr;

alignas(16) uint16_t memory[64];

AttentionArgs Good() {
  AttentionArgs args;
  args.q_heads = 8;
  args.kv_heads = 2;
  args.score.scale = 0.125f;
  args.query = {.q = memory, .row_stride = 512, .head_stride = 64, .rows = 10};
  args.keys = {.k = memory, .v = memory, .row_stride = 128, .head_stride = 64, .tokens = 10};
  return args;
}

TEST(AttendKernel, FollowsFromCapabilityAndHeadSizeAlone) {
  for (const int head_dim : {64, 128, 256}) {
    EXPECT_EQ(ChooseAttendKernel(90, head_dim), AttendKernel::kSm90a);
    for (const int capability : {80, 86, 89, 100, 120}) {
      EXPECT_EQ(ChooseAttendKernel(capability, head_dim), AttendKernel::kSm80);
    }
  }
  for (const int head_dim : {80, 96}) EXPECT_EQ(ChooseAttendKernel(90, head_dim), AttendKernel::kSm80);
}

TEST(CheckArgs, GoodOnesPass) {
  EXPECT_EQ(CheckAttention(64, Good()), "");
  AttentionArgs none = Good();  // empty inputs are legal
  none.query.rows = 0;
  none.keys = {};
  EXPECT_EQ(CheckAttention(256, none), "");
}

TEST(CheckArgs, BadOnesNameFieldValueAndLimit) {
  EXPECT_EQ(CheckAttention(72, Good()), "head_dim is 72, must be 64, 80, 96, 128 or 256");
  const auto with = [](auto change) {
    AttentionArgs args = Good();
    change(&args);
    return CheckAttention(64, args);
  };
  EXPECT_EQ(with([](AttentionArgs* a) { a->kv_heads = 3; }), "q_heads is 8, must be a multiple of kv_heads, 3");
  EXPECT_EQ(with([](AttentionArgs* a) { a->kv_heads = 0; }), "kv_heads is 0, must be at least 1");
  EXPECT_THAT(with([](AttentionArgs* a) { a->score.scale = 0; }), HasSubstr("scale is 0"));
  EXPECT_THAT(with([](AttentionArgs* a) { a->score.scale = NAN; }), HasSubstr("scale is nan"));
  EXPECT_THAT(with([](AttentionArgs* a) { a->score.softcap = -1; }), HasSubstr("softcap is -1"));
  EXPECT_EQ(with([](AttentionArgs* a) { a->mask.window = -5; }), "window is -5, must be 0 or above");
  EXPECT_THAT(with([](AttentionArgs* a) { a->query.rows = int64_t{1} << 29; }), HasSubstr("rows is 536870912"));
  EXPECT_THAT(with([](AttentionArgs* a) { a->keys.tokens = int64_t{1} << 31; }), HasSubstr("tokens is 2147483648"));
  EXPECT_EQ(with([](AttentionArgs* a) { a->query.row_stride = 516; }),
            "q row_stride is 516, must be a multiple of 8 elements");
  EXPECT_EQ(with([](AttentionArgs* a) { a->keys.head_stride = 60; }),
            "k head_stride is 60, must be a multiple of 8 elements");
  EXPECT_EQ(with([](AttentionArgs* a) { a->keys.v = memory + 1; }), "v is not aligned to 16 bytes");
  EXPECT_EQ(with([](AttentionArgs* a) { a->keys.page_shift = 5; }), "page_shift is 5, must be from 6 to 30");
  EXPECT_EQ(with([](AttentionArgs* a) { a->keys.first_block = -1; }), "first_block is -1, must be 0 or above");
}

TEST(CheckArgs, Decode) {
  DecodeArgs args;
  args.q_heads = 8;
  args.kv_heads = 2;
  args.score.scale = 1;
  EXPECT_EQ(CheckDecode(64, args, 0), "");
  EXPECT_EQ(CheckDecode(64, args, -1), "items is -1, must be from 0 to 2^31 - 1");
  args.window = -1;
  EXPECT_EQ(CheckDecode(64, args, 0), "window is -1, must be 0 or above");
}

}  // namespace
}  // namespace rondo::cuda
