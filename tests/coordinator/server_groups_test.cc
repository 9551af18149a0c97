// Ranks that join, disagree, freeze; and how status shows groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/server_fixture.h"

namespace rondo::coordinator {
namespace {

TEST_F(ServerTest, RanksThatDisagreeAreRefusedWithBothValues) {
  StartServer();
  for (const char* field : {"version", "model_sha256", "compute", "kv_type", "kernel_family", "libraries"}) {
    auto a = Rank(MakeHello(field, 0, 2));
    v1::Hello hello = MakeHello(field, 1, 2);
    v1::Fingerprint* f = hello.mutable_fingerprint();
    f->GetReflection()->SetString(f, f->GetDescriptor()->FindFieldByName(field), "other");
    auto b = Rank(hello);
    for (FakeRank* rank : {a.get(), b.get()}) {
      const Message refused = rank->WaitFor([](const Message& m) { return m.has_refused(); });
      EXPECT_THAT(refused.refused().reason(), testing::AllOf(testing::HasSubstr("rank 0"), testing::HasSubstr("rank 1"),
                                                             testing::HasSubstr("other")))
          << field;
      EXPECT_TRUE(rank->WaitClosed());
    }
  }
}

TEST_F(ServerTest, TakenRankAndSilentFormingGroupAreRefused) {
  engine_.membership.forming_timeout_us = 300000;
  StartServer();
  auto a = Rank(MakeHello("x", 0, 3));
  auto b = Rank(MakeHello("x", 1, 3));
  auto same = Rank(MakeHello("x", 1, 3));
  // Whichever of the two came second is refused as taken, the first with the whole group.
  std::string reasons;
  for (FakeRank* rank : {a.get(), b.get(), same.get()}) {
    reasons += rank->WaitFor([](const Message& m) { return m.has_refused(); }).refused().reason() + "\n";
  }
  EXPECT_THAT(reasons, testing::HasSubstr("rank 1 of launch x is taken by pid 1001"));
  EXPECT_THAT(reasons, testing::HasSubstr("2 of 3 ranks joined within 0.3 s"));
}

TEST_F(ServerTest, AFrozenRankEndsTheEpochAndTheStreamGoesOnInTheNext) {
  engine_.membership.rank_timeout_us = 500000;
  StartServer();
  auto ranks = Group("a");
  Call call(*stub_, TextRequest("hi", 10));
  const std::string id = ranks[0]->WaitStart().start().job_id();
  ranks[0]->Token(id, 0, 'a');
  EXPECT_TRUE(call.WaitEvent([](const v1::GenerateEvent& e) { return e.delta().text() == "a"; }));
  ranks[1]->Freeze();
  const Message leave = ranks[0]->WaitFor([](const Message& m) { return m.has_leave(); });
  EXPECT_THAT(leave.leave().reason(), testing::HasSubstr("rank 1 (pid 1001 on testhost) was silent"));
  EXPECT_TRUE(ranks[0]->WaitClosed());
  EXPECT_TRUE(ranks[1]->WaitClosed());  // also the one that reads nothing any more
  // A straggler of the same launch is not let in again.
  auto straggler = Rank(MakeHello("a", 1, 2));
  EXPECT_THAT(straggler->WaitFor([](const Message& m) { return m.has_refused(); }).refused().reason(),
              testing::HasSubstr("is over"));
  auto next = Group("b");
  EXPECT_GT(next[0]->epoch(), ranks[0]->epoch());
  EXPECT_EQ(next[0]->WaitStart().start().job_id(), id);
  next[0]->Token(id, 0, 'x', false, -1);  // an old epoch's word is not heard
  next[0]->Token(id, 0, 'a');
  next[0]->Token(id, 1, 'b');
  next[0]->Ended(id, "length");
  EXPECT_TRUE(call.Wait().ok());
  EXPECT_EQ(call.Text(), "ab");
  EXPECT_EQ(call.Result().restarts(), 1u);
  EXPECT_TRUE(
      call.WaitEvent([](const v1::GenerateEvent& e) { return e.progress().phase() == v1::Progress::RESTARTING; }));
}

TEST_F(ServerTest, RanksThatBeatAndDoNotMoveEndTheEpoch) {
  engine_.scheduler.stall_timeout_us = 300000;
  StartServer();
  auto ranks = Group("a");
  Call call(*stub_, TextRequest("hi", 10));
  ranks[0]->WaitStart();
  for (auto& rank : ranks) {
    const Message leave = rank->WaitFor([](const Message& m) { return m.has_leave(); });
    EXPECT_THAT(leave.leave().reason(),
                testing::ContainsRegex("rank [01] is stuck: no progress for .* at command 0 of 2"));
    EXPECT_TRUE(rank->WaitClosed());
  }
  EXPECT_TRUE(
      call.WaitEvent([](const v1::GenerateEvent& e) { return e.progress().phase() == v1::Progress::RESTARTING; }));
}

TEST_F(ServerTest, AKernelFamilyOfItsOwnMayNotJoinAGroup) {
  StartServer();
  auto cpu = Rank(MakeHello("a", 0, 2));
  v1::Hello hello = MakeHello("a", 1, 2);
  hello.set_kernels("ref");
  hello.mutable_fingerprint()->set_kernel_family("ref");
  auto ref = Rank(hello);
  for (FakeRank* rank : {cpu.get(), ref.get()}) {
    EXPECT_THAT(
        rank->WaitFor([](const Message& m) { return m.has_refused(); }).refused().reason(),
        testing::AllOf(testing::HasSubstr("rank 0"), testing::HasSubstr("rank 1"), testing::HasSubstr("kernel family"),
                       testing::HasSubstr("cpu"), testing::HasSubstr("ref")));
  }
}

void WaitForReadyGroups(const std::function<v1::Cluster()>& look, int wanted) {
  int ready = -1;
  for (int i = 0; i < 500 && ready != wanted; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const v1::Cluster cluster = look();
    ready = 0;
    for (const auto& group : cluster.groups()) ready += group.state() == "ready" ? 1 : 0;
  }
  EXPECT_EQ(ready, wanted);
}

// A worker of another mode comes and goes: new jobs meet the group that is there, not the one that was.
TEST_F(ServerTest, AGroupThatLeftDoesNotKeepItsModelInForce) {
  StartServer();
  const auto grouped = Group("a");
  v1::Hello other = MakeHello("b", 0, 1);
  other.mutable_fingerprint()->set_compute("another");
  auto passing = Rank(other);
  EXPECT_GT(passing->WaitWelcome().epoch(), 0u);
  Call first(*stub_, TextRequest("abc", 1));
  EXPECT_TRUE(grouped[0]->WaitStart().has_start()) << "the model at hand stays while its group is there";
  passing.reset();
  auto third = Rank(other);
  third->WaitWelcome();
  third.reset();
  WaitForReadyGroups([this] { return Cluster(); }, 1);
  Call second(*stub_, TextRequest("abcd", 1));
  EXPECT_TRUE(grouped[0]->WaitStart().has_start());
}

TEST_F(ServerTest, TheNextReadyGroupsModelTakesOver) {
  StartServer();
  auto first = Group("a");
  v1::Hello other = MakeHello("b", 0, 1);
  other.mutable_fingerprint()->set_compute("another");
  auto next = Rank(other);
  next->WaitWelcome();
  first.clear();
  WaitForReadyGroups([this] { return Cluster(); }, 1);
  Call call(*stub_, TextRequest("abc", 1));
  EXPECT_TRUE(next->WaitStart().has_start());
}

TEST_F(ServerTest, StatusShowsRanksInTheirOrderHoweverTheyJoined) {
  StartServer();
  std::vector<std::unique_ptr<FakeRank>> ranks;
  for (const uint32_t r : {3u, 0u, 2u, 1u}) ranks.push_back(Rank(MakeHello("a", r, 4)));
  for (auto& rank : ranks) rank->WaitWelcome();
  const v1::Cluster cluster = Cluster();
  ASSERT_EQ(cluster.groups_size(), 1);
  ASSERT_EQ(cluster.groups(0).ranks_size(), 4);
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(cluster.groups(0).ranks(r).rank(), static_cast<uint32_t>(r));
    EXPECT_EQ(cluster.groups(0).ranks(r).pid(), 1000u + r);
  }
}

TEST_F(ServerTest, StatusShowsReadyGroupsThenFormingOnesThenTheLastThreeLost) {
  StartServer();
  auto old_ready = Group("z");
  std::vector<uint64_t> lost_epochs;
  for (const char* launch : {"d", "c", "b", "a", "e"}) {
    auto ranks = Group(launch);
    lost_epochs.push_back(ranks[0]->epoch());
    ranks.pop_back();  // its stream ends
    EXPECT_TRUE(ranks[0]->WaitFor([](const Message& m) { return m.has_leave(); }).has_leave());
  }
  auto new_ready = Group("y");
  auto forming = Rank(MakeHello("f", 1, 2));
  v1::Cluster cluster;
  for (int i = 0; i < 1000 && cluster.groups_size() < 6; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    cluster = Cluster();
  }
  ASSERT_EQ(cluster.groups_size(), 6);
  const std::vector<std::string> states = {"ready", "ready", "forming", "lost", "lost", "lost"};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(cluster.groups(i).state(), states[i]) << i;
  EXPECT_EQ(cluster.groups(0).epoch(), new_ready[0]->epoch());
  EXPECT_EQ(cluster.groups(1).epoch(), old_ready[0]->epoch());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cluster.groups(3 + i).epoch(), lost_epochs[4 - i]) << i;
}

}  // namespace
}  // namespace rondo::coordinator
