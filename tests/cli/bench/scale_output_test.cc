// Tables, JSON, plots and traces of the sample rings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/bench/scale_plot.h"
#include "cli/bench/scale_table.h"
#include "cli/bench/svg.h"
#include "cli/bench/trace_json.h"
#include "tests/cli/bench/sample_runs.h"

namespace rondo::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const BenchFacts kFacts = {"A CPU <of 2>", 2, "2026-11-29", "rondo bench scale --workers 1,2"};

ScaleReport Sample(double link = 0) { return MakeReport({{4096, 1, {OneWorker()}}, {4096, 2, {TwoWorkers()}}}, link); }

TEST(ScaleTable, OneLineACell) {
  EXPECT_EQ(
      ScaleTable(Sample()),
      "TOKENS  WORKERS  SECONDS  SPEED-UP  EFFICIENCY %  COMPUTE %  TRANSFER %  WAIT %  SENT  PEAK A RANK  CPU S  "
      "CPU RATIO  CPU SPEED-UP  GFLOP/S  VERIFIED\n"
      "4,096   1        1.000    1.000     100.0         100.0      0.0         0.0     0 B   1.1 KiB      1.000  "
      "1.000      1.000         2.0      yes\n"
      "4,096   2        0.500    2.000     100.0         90.0       5.0         5.0     22 B  1.0 KiB      1.040  "
      "1.040      1.852         4.0      yes\n");
}

TEST(ScaleTable, LeavesOpenWhatIsNotKnownOfThreads) {
  CellRun threads = TwoWorkers();
  threads.transport = "loopback";
  const ScaleReport report = MakeReport({{4096, 1, {OneWorker()}}, {4096, 2, {threads}}}, 0);
  EXPECT_THAT(ScaleTable(report), HasSubstr("22 B  -            1.040  1.040      -             4.0      yes\n"));
  const Json cell = ScaleJson(report, kFacts)["cells"][1];
  EXPECT_TRUE(cell["peak_bytes"].is_null() && cell["data_bytes"].is_null() && cell["cpu_speedup"].is_null());
}

TEST(ScaleTable, SaysLoudlyWhereBitsDiffer) {
  CellRun wrong = TwoWorkers();
  wrong.digest = "other";
  EXPECT_THAT(ScaleTable(MakeReport({{4096, 1, {OneWorker()}}, {4096, 2, {wrong}}}, 0)), HasSubstr("NO\n"));
}

TEST(ScaleTable, ShowsTheBoundWhenTheLinkIsKnown) {
  EXPECT_THAT(ScaleTable(Sample(20)), HasSubstr("OF BOUND"));
  EXPECT_THAT(ScaleTable(Sample(20)), HasSubstr("0.833"));
}

TEST(ScaleTable, OneLineARingStep) {
  EXPECT_EQ(ScaleStepTable(Sample()),
            "TOKENS  WORKERS  RING STEP  MEAN MS  COMPUTE %  TRANSFER %  WAIT %  SENT\n"
            "4,096   2        0          375.00   86.7       6.7         6.7     22 B\n"
            "4,096   2        1          125.00   100.0      0.0         0.0     0 B\n");
  EXPECT_EQ(ScaleStepTable(MakeReport({{4096, 1, {OneWorker()}}}, 0)), "");
}

TEST(ScaleJson, HasEveryFigure) {
  const Json json = ScaleJson(Sample(20), kFacts);
  EXPECT_EQ(json["machine"], "A CPU <of 2>");
  EXPECT_EQ(json["verified"], true);
  ASSERT_EQ(json["cells"].size(), 2u);
  const Json& cell = json["cells"][1];
  EXPECT_EQ(cell["speedup"], 2);
  EXPECT_EQ(cell["sent_bytes"], 22);
  EXPECT_EQ(cell["shares"]["exposed_transfer"], 0.05);
  EXPECT_EQ(cell["steps"][0]["sent_bytes"], 22);
  EXPECT_EQ(cell["ranks"][1]["host"], "b");
  EXPECT_EQ(cell["ranks"][0]["steps"][0]["wait_us"], 100e3);
  EXPECT_GT(cell["bound_ratio"], 0.8);
  EXPECT_TRUE(json["fits"][0]["time_exponent"].is_null());
}

TEST(Svg, EscapesWhatXmlWouldRead) { EXPECT_EQ(EscapeXml("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;"); }

TEST(Svg, TicksAreRound) {
  EXPECT_THAT(NiceTicks(0, 1.9, 5), ElementsAre(0, 0.5, 1.0, 1.5, 2.0));
  EXPECT_THAT(NiceTicks(0, 100, 5), ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_THAT(NiceTicks(3, 3, 5), ElementsAre(3));
}

TEST(Svg, LabelsKeepApartAndInside) {
  std::vector<double> labels = {100, 101, 50, 102};
  SpreadLabels(&labels, 10, 200);
  EXPECT_THAT(labels, ElementsAre(100, 110, 50, 120));
  labels = {195, 198, 60};
  SpreadLabels(&labels, 10, 200);
  EXPECT_THAT(labels, ElementsAre(190, 200, 60));
}

// The x of each rectangle of a class, and its width.
std::vector<std::pair<double, double>> Rects(const std::string& svg, const std::string& css) {
  std::vector<std::pair<double, double>> found;
  const std::string mark = "<rect class=\"" + css + "\" x=\"";
  for (size_t at = svg.find(mark); at != std::string::npos; at = svg.find(mark, at + 1)) {
    found.emplace_back(std::stod(svg.substr(at + mark.size())), std::stod(svg.substr(svg.find("width=\"", at) + 7)));
  }
  return found;
}

TEST(ScalePlot, DrawsTheTimelineToScale) {
  const std::string svg = ScaleSvg(Sample(), kFacts);
  // 500 ms over the width from 76 to 960: 1.768 a millisecond. Rank 0 waits at 300 ms for 50, then the wire for 50.
  const auto late = Rects(svg, "late"), transfer = Rects(svg, "transfer");
  ASSERT_EQ(late.size(), 2u);  // the first is the key's
  EXPECT_NEAR(late[1].first, 76 + 300 * 1.768, 0.01);
  EXPECT_NEAR(late[1].second, 50 * 1.768, 0.01);
  ASSERT_EQ(transfer.size(), 2u);
  EXPECT_NEAR(transfer[1].first, 76 + 350 * 1.768, 0.01);
  EXPECT_NEAR(transfer[1].second, 50 * 1.768, 0.01);
}

TEST(ScalePlot, IsSelfContainedAndFollowsTheReader) {
  for (const std::string& text : {ScaleSvg(Sample(), kFacts), ScaleHtml(Sample(), kFacts)}) {
    EXPECT_THAT(text, HasSubstr("prefers-color-scheme:dark"));
    EXPECT_THAT(text, HasSubstr("A CPU &lt;of 2&gt;"));
    EXPECT_THAT(text, HasSubstr("2 workers"));
    EXPECT_THAT(text, HasSubstr("Every cell gives the bits of one worker."));
    for (const char* outside : {"<script", "href=", "src=", "@import", "url("})
      EXPECT_THAT(text, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(ScaleHtml(Sample(), kFacts), HasSubstr("RING STEP"));
}

TEST(ScalePlot, LivesWithoutARing) {
  EXPECT_EQ(TimelineRow(MakeReport({{4096, 1, {OneWorker()}}}, 0)), nullptr);
  EXPECT_THAT(ScaleSvg(MakeReport({{4096, 1, {OneWorker()}}}, 0), kFacts), HasSubstr("</svg>"));
  EXPECT_THAT(ScaleSvg({}, kFacts), HasSubstr("</svg>"));
}

TEST(TraceJson, IsOneProcessARankWithItsSlices) {
  const Json trace = Json::parse(TraceJson(TwoWorkers()));
  std::vector<std::string> slices;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    slices.push_back(event["name"].get<std::string>() + " " + std::to_string(event["pid"].get<int>()) + " " +
                     std::to_string(event["ts"].get<int>()) + "+" + std::to_string(event["dur"].get<int>()));
  }
  EXPECT_THAT(slices, ElementsAre("compute 0 0+300000", "wait for peer 0 300000+50000", "transfer 0 350000+50000",
                                  "compute 0 400000+100000", "compute 1 0+350000", "compute 1 350000+150000"));
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "rank 0 on a");
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
}

}  // namespace
}  // namespace rondo::cli
