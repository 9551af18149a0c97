#include "cli/bench/scale_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "cli/bench/scale_bench.h"

namespace rondo::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Line(const ScaleOptions& o, int64_t workers, int64_t tokens) {
  return absl::StrJoin(CellCommand(o, workers, tokens), " ");
}

TEST(CellCommand, OverMpi) {
  ScaleOptions o;
  o.bin = "/b";
  const std::string line = Line(o, 2, 4096);
  EXPECT_THAT(line, StartsWith("mpirun -np 2 "));
  EXPECT_THAT(line, HasSubstr("--oversubscribe"));
  EXPECT_THAT(line, HasSubstr(" /b/scale_rank --tokens 4096 --threads 1 --kv-type f32 --heads 8/2x64 --strategy auto"));
  EXPECT_THAT(line, Not(HasSubstr("--host")));
}

TEST(CellCommand, AsThreads) {
  ScaleOptions o;
  o.bin = "/b";
  o.transport = "loopback";
  o.kernels = "portable";
  EXPECT_EQ(Line(o, 3, 5),
            "/b/scale_rank --tokens 5 --threads 1 --kv-type f32 --ranks 3 --heads 8/2x64 --strategy auto --kernels "
            "portable");
}

TEST(CellCommand, OfAModel) {
  ScaleOptions o;
  o.model = "M.gguf";
  EXPECT_THAT(Line(o, 1, 5), HasSubstr("--model M.gguf"));
  EXPECT_THAT(Line(o, 1, 5), Not(HasSubstr("--heads")));
}

TEST(CellCommand, RanksGoRoundTheHosts) {
  ScaleOptions o;
  o.hosts = {"a", "b"};
  o.agent = "/x/agent";
  o.network = "10.0.0.0/24";
  const std::string line = Line(o, 3, 5);
  EXPECT_THAT(line, HasSubstr("--host a,b,a --map-by node"));
  EXPECT_THAT(line, HasSubstr("--mca plm_rsh_agent /x/agent"));
  EXPECT_THAT(line, HasSubstr("--mca btl tcp,self"));
  EXPECT_THAT(line, HasSubstr("--mca btl_tcp_if_include 10.0.0.0/24"));
  EXPECT_THAT(line, HasSubstr("--mca oob_tcp_if_include 10.0.0.0/24"));
}

TEST(ParseHosts, ReadsNamesSlotsAndComments) {
  EXPECT_THAT(*ParseHosts("a\n# none\n  b slots=2  # two\n\nc\r\n"), ElementsAre("a", "b", "b", "c"));
}

TEST(ParseHosts, NamesTheLine) {
  for (const char* bad : {"a\nb two", "a\nb slots=0", "a\nb slots=x", "a\nb slots=1 c"}) {
    const auto hosts = ParseHosts(bad);
    ASSERT_FALSE(hosts.ok()) << bad;
    EXPECT_THAT(std::string(hosts.status().message()), HasSubstr("hosts, line 2")) << bad;
  }
  EXPECT_FALSE(ParseHosts("# nobody\n").ok());
}

TEST(CellWeight, IsQuadraticAndSharedOverCores) {
  const double start = CellWeight(0, 1, 1, 2);
  EXPECT_DOUBLE_EQ(CellWeight(20000, 1, 1, 2) - start, 4 * (CellWeight(10000, 1, 1, 2) - start));
  EXPECT_DOUBLE_EQ(CellWeight(20000, 2, 1, 2) - start, (CellWeight(20000, 1, 1, 2) - start) / 2);
  EXPECT_DOUBLE_EQ(CellWeight(20000, 16, 1, 2), CellWeight(20000, 2, 1, 2));
}

}  // namespace
}  // namespace rondo::cli
