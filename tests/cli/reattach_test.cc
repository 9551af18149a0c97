#include "cli/reattach.h"

#include <gtest/gtest.h>

namespace rondo::cli {
namespace {

v1::Job Job(const std::string& state, const std::string& text) {
  v1::Job job;
  job.set_id("j");
  job.set_state(state);
  job.set_text(text);
  job.set_text_known(true);
  job.set_prefill_fraction(1);
  for (const char c : text) job.add_tokens(c);
  return job;
}

class TakeJobTest : public testing::Test {
 protected:
  TakeJobTest() {
    events_.delta = [this](const v1::Delta& delta) {
      shown_ += delta.text();
      return absl::OkStatus();
    };
    events_.progress = [this](const v1::Progress& progress) { progress_.push_back(progress.phase()); };
    outcome_.text = shown_ = "ab";
    outcome_.tokens = {'a', 'b'};
    outcome_.status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed");
  }
  bool Take(const v1::Job& job) { return TakeJob(job, events_, &outcome_); }

  GenerateEvents events_;
  GenerateOutcome outcome_;
  std::string shown_;
  std::vector<int> progress_;
};

TEST_F(TakeJobTest, GoesOnWhereTheStreamBroke) {
  v1::Job queued = Job("queued", "ab");
  queued.set_prefill_fraction(0);
  EXPECT_FALSE(Take(queued));
  v1::Job prefill = Job("running", "a");  // a token that the journal had not kept: drawn again
  prefill.set_prefill_fraction(0.5);
  EXPECT_FALSE(Take(prefill));
  EXPECT_FALSE(Take(Job("running", "ab")));
  EXPECT_EQ(shown_, "ab");
  EXPECT_FALSE(Take(Job("running", "abcd")));
  EXPECT_EQ(shown_, "abcd");
  v1::Job finished = Job("finished", "abcde");
  finished.mutable_result()->set_digest("d");
  EXPECT_TRUE(Take(finished));
  EXPECT_EQ(shown_, "abcde");
  EXPECT_EQ(outcome_.text, "abcde");
  EXPECT_EQ(outcome_.tokens, (std::vector<int32_t>{'a', 'b', 'c', 'd', 'e'}));
  EXPECT_TRUE(outcome_.finished);
  EXPECT_TRUE(outcome_.status.ok());
  EXPECT_EQ(outcome_.result.digest(), "d");
  EXPECT_EQ(progress_, (std::vector<int>{v1::Progress::QUEUED, v1::Progress::PREFILL}));
}

TEST_F(TakeJobTest, WaitsForTheModelThatTurnsTokensIntoText) {
  v1::Job finished = Job("finished", "");
  finished.set_text_known(false);
  finished.add_tokens('a');
  EXPECT_FALSE(Take(finished));
  EXPECT_FALSE(outcome_.finished);
  EXPECT_TRUE(Take(Job("finished", "abc")));
  EXPECT_EQ(shown_, "abc");
}

TEST_F(TakeJobTest, AnotherTextIsAnError) {
  EXPECT_TRUE(Take(Job("running", "axc")));
  EXPECT_EQ(outcome_.local.code(), absl::StatusCode::kDataLoss);
  outcome_.local = absl::OkStatus();
  EXPECT_TRUE(Take(Job("finished", "a")));
  EXPECT_EQ(outcome_.local.code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(outcome_.finished);
  EXPECT_EQ(shown_, "ab");
}

TEST_F(TakeJobTest, AFailedJobHasItsOwnCode) {
  v1::Job failed = Job("failed", "abc");
  failed.set_error_code(static_cast<int>(grpc::StatusCode::DEADLINE_EXCEEDED));
  failed.set_error("the deadline passed");
  EXPECT_TRUE(Take(failed));
  EXPECT_FALSE(outcome_.finished);
  EXPECT_EQ(outcome_.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(CodeOfRpc(outcome_.status, true), kDeadline);
  outcome_.status = grpc::Status::OK;
  failed.set_text_known(false);
  EXPECT_TRUE(Take(failed));
  EXPECT_EQ(outcome_.status.error_message(), "the deadline passed");
}

TEST(ConnectionBroke, IsNotTheCoordinatorsOwnWord) {
  EXPECT_TRUE(ConnectionBroke(grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed")));
  EXPECT_FALSE(ConnectionBroke(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the coordinator is shutting down")));
  EXPECT_FALSE(ConnectionBroke(grpc::Status(grpc::StatusCode::CANCELLED, "")));
  EXPECT_FALSE(ConnectionBroke(grpc::Status::OK));
}

}  // namespace
}  // namespace rondo::cli
