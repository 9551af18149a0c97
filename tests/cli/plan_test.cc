// What `rondo plan` reads: a model's sizes on the command line, and the line of figures that the ranks print.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/plan/measure_ranks.h"
#include "cli/plan/shape_option.h"

namespace rondo::cli {
namespace {

using testing::HasSubstr;

TEST(ShapeOption, ReadsEverySize) {
  const CostShape shape =
      ParseShape("heads=4/2x8,layers=3,embedding=32,feed_forward=64,vocab=100,weight_bits=4").value();
  EXPECT_EQ(shape.layers, 3);
  EXPECT_EQ(shape.embedding, 32);
  EXPECT_EQ(shape.feed_forward, 64);
  EXPECT_EQ(shape.q_heads, 4);
  EXPECT_EQ(shape.kv_heads, 2);
  EXPECT_EQ(shape.head_dim, 8);
  EXPECT_EQ(shape.vocab, 100);
  // 3 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64) in layers, 2 * 100 * 32 outside, half a byte each.
  EXPECT_EQ(shape.weight_bytes, (3u * (2048 + 1024 + 6144) + 6400) / 2);
}

TEST(ShapeOption, NamesWhatIsWrong) {
  const auto message = [](const char* text) { return std::string(ParseShape(text).status().message()); };
  EXPECT_THAT(message("layers=3"), HasSubstr("misses heads"));
  EXPECT_THAT(message("layers=3,layers=4"), HasSubstr("layers=4"));
  EXPECT_THAT(message("leyers=3"), HasSubstr("leyers=3"));
  EXPECT_THAT(message("layers=0"), HasSubstr("layers: 0"));
  EXPECT_THAT(message("layers=99999999999"), HasSubstr("1048576"));
  EXPECT_THAT(message("heads=32/5x64"), HasSubstr("5 KV heads do not divide 32"));
  EXPECT_THAT(message("heads=32"), HasSubstr("32/8x128"));
  EXPECT_THAT(message("layers=1048576,embedding=1048576,feed_forward=1048576,heads=1048576/1048576x1048576,vocab=1,"
                      "weight_bits=16"),
              HasSubstr("above 2^60 bytes"));
}

constexpr char kLine[] =
    R"(measured {"ranks": 2, "threads": 1, "kernels": "avx2", "compute": "q8", "kv_type": "bf16", "dense_flops": 1e11, )"
    R"("attention_flops": 7e10, "decode_dense_s": 0.005, "decode_attend_s": 0, "kv_read_bytes_per_s": 9e9, )"
    R"("link_bytes_per_s": 2e9, "link_latency_s": 1e-4})";

TEST(ParseMeasured, ReadsTheLine) {
  const MeasuredRanks ranks = ParseMeasured(kLine).value();
  EXPECT_EQ(ranks.rates.dense_flops, 1e11);
  EXPECT_EQ(ranks.rates.link_latency_s, 1e-4);
  EXPECT_EQ(ranks.kv_type, "bf16");
  EXPECT_EQ(ranks.threads, 1);
}

TEST(ParseMeasured, RefusesWhatIsNoMeasurement) {
  EXPECT_FALSE(ParseMeasured("ready").ok());
  EXPECT_FALSE(ParseMeasured("measured {").ok());
  std::string zero = kLine;
  zero.replace(zero.find("7e10"), 4, "0.00");
  EXPECT_THAT(std::string(ParseMeasured(zero).status().message()), HasSubstr("attention_flops is 0"));
  std::string missing = kLine;
  missing.replace(missing.find("decode_dense_s"), 14, "something_else");
  EXPECT_THAT(std::string(ParseMeasured(missing).status().message()), HasSubstr("decode_dense_s is missing"));
}

}  // namespace
}  // namespace rondo::cli
