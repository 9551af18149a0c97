// The client's float64 attention and its idea of what a query sees, against numbers worked out by hand.
#include "cli/attend_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/visible_keys.h"
#include "proto/attention_spec.h"

namespace rondo::cli {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WriteNpy(const std::string& name, const std::string& shape, const std::vector<float>& values,
                     const std::string& type = "<f4") {
  const std::string path = absl::StrCat(::testing::TempDir(), "/attend-check-", name, ".npy");
  const std::string text = absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, "}\n");
  std::ofstream out(path, std::ios::binary);
  out << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(text.size()) << '\0' << text;
  out.write(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return path;
}

AttendOptions Lookup() {
  AttendOptions o;
  o.q = WriteNpy("q", "(1, 1, 3)", {1, 0, 1});
  o.k = WriteNpy("k", "(3, 1, 3)", {1, 0, 1, 0, 1, 0, 1, 1, 0});
  o.v = WriteNpy("v", "(3, 1, 3)", {1, 0, 0, 0, 1, 0, 0, 0, 1});
  return o;
}

std::vector<double> Row(const AttendOptions& o, int64_t row = 0, int32_t head = 0) {
  const absl::StatusOr<AttendTensors> t = LoadAttendTensors(o);
  EXPECT_TRUE(t.ok()) << t.status();
  double largest = 0;
  return t.ok() ? AttendFloat64(*t, row, head, &largest) : std::vector<double>();
}

TEST(AttendFloat64, TheSmallestLookup) {
  // Scores 2, 0, 1 over sqrt 3; e^1.1547 = 3.1731, 1, e^0.57735 = 1.7813, together 5.9544.
  EXPECT_THAT(Row(Lookup()), ElementsAre(DoubleNear(0.5329, 5e-5), DoubleNear(0.1679, 5e-5), DoubleNear(0.2992, 5e-5)));
}

TEST(AttendFloat64, SoftcapSinksAndSlopes) {
  AttendOptions o = Lookup();
  o.scale = 1;
  o.softcap = 1;  // tanh 2, 0, tanh 1 = 0.96403, 0, 0.76159: e^ = 2.6222, 1, 2.1417
  EXPECT_THAT(Row(o), ElementsAre(DoubleNear(0.4549, 5e-5), DoubleNear(0.1735, 5e-5), DoubleNear(0.3716, 5e-5)));
  o.softcap = 0;
  o.sinks = "0";  // e^2 + 1 + e + 1 = 12.1073
  EXPECT_THAT(Row(o), ElementsAre(DoubleNear(0.6103, 5e-5), DoubleNear(0.0826, 5e-5), DoubleNear(0.2245, 5e-5)));
  o.sinks = "";
  o.alibi = "1";  // distances 2, 1, 0: scores 0, -1, 1: 1 + 0.36788 + 2.71828 = 4.08616
  EXPECT_THAT(Row(o), ElementsAre(DoubleNear(0.2447, 5e-5), DoubleNear(0.0900, 5e-5), DoubleNear(0.6652, 5e-5)));
}

TEST(VisibleKeys, EveryMaskAlignedToTheEnd) {
  AttentionJobSpec s;
  s.q_tokens = 1;
  s.kv_tokens = 5;
  const auto see = [&](int64_t query) {
    const PositionRun keys = VisibleKeysOf(s, query);
    return keys.size() <= 0 ? std::string("none") : absl::StrCat(keys.begin, "..", keys.end - 1);
  };
  EXPECT_EQ(see(0), "0..4");
  s.q_tokens = 5;
  s.kv_tokens = 2;
  EXPECT_EQ(see(2), "none");
  EXPECT_EQ(see(3), "0..0");
  EXPECT_EQ(see(4), "0..1");
  s.causal = false;
  EXPECT_EQ(see(0), "0..1");
  s.causal = true;
  s.q_tokens = s.kv_tokens = 20;
  s.window = 4;
  EXPECT_EQ(see(10), "7..10");
  s.causal = false;
  EXPECT_EQ(see(10), "7..13");
  s.sequence_starts = {0, 8, 8, 12, 20};
  EXPECT_EQ(see(10), "8..11");
  EXPECT_EQ(see(12), "12..15");
}

TEST(LoadAttendTensors, RefusesWithTheOptionAndTheNumbers) {
  const auto error = [](const AttendOptions& o) {
    const auto t = LoadAttendTensors(o);
    EXPECT_FALSE(t.ok());
    return std::string(t.status().message());
  };
  AttendOptions o = Lookup();
  o.q = "/no/such/file.npy";
  EXPECT_THAT(error(o), HasSubstr("--q: cannot read /no/such/file.npy"));
  o = Lookup();
  o.v = WriteNpy("flat", "(3, 3)", std::vector<float>(9));
  EXPECT_THAT(error(o), HasSubstr("shape [3, 3], [tokens, heads, head_dim]"));
  o.v = WriteNpy("short", "(2, 1, 3)", std::vector<float>(6));
  EXPECT_THAT(error(o), HasSubstr("--v: 2 tokens, --k has 3"));
  o.v = WriteNpy("wide", "(3, 1, 4)", std::vector<float>(12));
  EXPECT_THAT(error(o), HasSubstr("--v: shape [3, 1, 4], that of --k is [3, 1, 3]"));
  o.v = WriteNpy("int", "(3, 1, 3)", std::vector<float>(9), "<i4");
  EXPECT_THAT(error(o), HasSubstr("type int32, float32"));
  o = Lookup();
  o.q = WriteNpy("q3", "(1, 3, 3)", std::vector<float>(9));
  o.k = o.v = WriteNpy("kv2", "(3, 2, 3)", std::vector<float>(18));
  EXPECT_THAT(error(o), HasSubstr("3 heads are not a multiple of the 2 heads"));
  o.k = o.v = WriteNpy("kv0", "(3, 0, 3)", {});
  EXPECT_THAT(error(o), HasSubstr("heads 0 is not in 1..4096"));
  o = Lookup();
  o.sinks = "1,2";
  EXPECT_THAT(error(o), HasSubstr("sinks: 2 values where one for each of 1 q heads"));
  o = Lookup();
  o.cu_seqlens = "0,2,1,3";
  EXPECT_THAT(error(o), HasSubstr("sequence_starts[2]: 1 is less than the one before, 2"));
  o.cu_seqlens = "0,2";
  EXPECT_THAT(error(o), HasSubstr("the last must be kv_tokens, 3"));
  o.cu_seqlens = "0,1.5,3";
  EXPECT_THAT(error(o), HasSubstr("number 1 is 1.5"));
  o = Lookup();
  o.scale = 1e-7f;
  EXPECT_THAT(error(o), HasSubstr("scale: 1e-07 is not in 1e-06..1e+06"));
  o = Lookup();
  o.q = o.k = o.v = WriteNpy("deep", "(1, 1, 257)", std::vector<float>(257));
  EXPECT_THAT(error(o), HasSubstr("head_dim 257 is not in 1..256"));
  o = Lookup();
  o.softcap = -1;
  EXPECT_THAT(error(o), HasSubstr("softcap: -1"));
}

// What a message says is what is checked: at each limit a job passes all checks, one step beyond it is the message's.
TEST(AttentionSpec, TheLimitsInTheMessagesAreTheLimits) {
  v1::AttentionSpec good;
  good.set_q_tokens(kMaxAttentionTokens);
  good.set_kv_tokens(kMaxAttentionTokens);
  good.set_q_heads(1);
  good.set_kv_heads(1);
  good.set_head_dim(kMaxAttentionHeadDim);
  good.set_scale(kMinAttentionScale);
  EXPECT_TRUE(rondo::FromProto(good).ok()) << rondo::FromProto(good).status();
  const auto refused = [](const v1::AttentionSpec& spec, const char* what) {
    EXPECT_EQ(rondo::FromProto(spec).status().message(), what);
  };
  v1::AttentionSpec s = good;
  s.set_q_tokens(kMaxAttentionTokens + 1);
  refused(s, "q_tokens: 2147483648 is not in 0..2147483647");
  s = good;
  s.set_kv_tokens(kMaxAttentionTokens + 1);
  refused(s, "kv_tokens: 2147483648 is not in 0..2147483647");
  s = good;
  s.set_head_dim(257);
  refused(s, "head_dim: 257 is not in 1..256");
  s = good;
  s.set_q_heads(4097);
  refused(s, "q_heads: 4097 is not in 1..4096");
  s = good;
  s.set_scale(0);
  refused(s, "scale: 0 is not in 1e-06..1e+06; leave it out for 1 / sqrt(head_dim)");
  s.set_scale(NAN);
  refused(s, "scale: nan is not in 1e-06..1e+06; leave it out for 1 / sqrt(head_dim)");
  s.clear_scale();
  EXPECT_EQ(rondo::FromProto(s)->shape.scale, 1.0f / 16);
}

TEST(CheckFinite, LooksOnlyWhereAQueryLooks) {
  AttendOptions o = Lookup();
  std::vector<float> v(9, 1.0f);
  v[1] = NAN;
  o.v = WriteNpy("nan", "(3, 1, 3)", v);
  EXPECT_THAT(std::string(CheckFinite(*LoadAttendTensors(o)).message()),
              HasSubstr("--v: row 0 head 0 element 1 is nan"));
  o.causal = true;
  o.window = 2;  // the one query, at position 2, sees keys 1 and 2
  EXPECT_TRUE(CheckFinite(*LoadAttendTensors(o)).ok());
}

}  // namespace
}  // namespace rondo::cli
