// Requests and uploads that are refused, with the field, the value and the limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/server_fixture.h"

namespace rondo::coordinator {
namespace {

TEST_F(ServerTest, UploadsAroundGrpcsLimitAndAtTheCap) {
  StartServer();
  v1::UploadReply reply;
  for (const size_t bytes : {(4u << 20) - 64, (4u << 20) + 64, 64u << 20}) {
    const grpc::Status status = Upload(bytes, &reply);
    EXPECT_TRUE(status.ok()) << bytes << " " << status.error_message();
    EXPECT_EQ(reply.size_bytes(), bytes);
    EXPECT_EQ(reply.upload_id().size(), 32u);
  }
  const grpc::Status status = Upload((64u << 20) + 1, &reply);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("67108864"));
}

TEST_F(ServerTest, BadRequestsAreRefusedBeforeAnyRankHears) {
  StartServer();
  auto ranks = Group("a");
  const auto refused = [&](const v1::GenerateRequest& request, const char* what,
                           grpc::StatusCode code = grpc::INVALID_ARGUMENT) {
    Call call(*stub_, request);
    const grpc::Status status = call.Wait();
    EXPECT_EQ(status.error_code(), code) << what;
    EXPECT_THAT(status.error_message(), testing::HasSubstr(what));
  };
  refused(v1::GenerateRequest(), "prompt: one of");
  refused(TextRequest("", 1), "prompt.text is empty");
  refused(TextRequest("hi", 0), "max_tokens: 0");
  refused(TextRequest("hi", 1100), "trained context of 1024");
  refused(TextRequest(std::string((1 << 20) + 1, 'x'), 1), "1048577 bytes inline, at most 1048576");
  v1::GenerateRequest r = TextRequest("hi", 1);
  r.mutable_sampling()->set_temperature(-1);
  refused(r, "temperature");
  r = TextRequest("hi", 1);
  for (int i = 0; i < 17; ++i) r.add_stop("s");
  refused(r, "17 strings, at most 16");
  r = TextRequest("hi", 1);
  r.add_stop(std::string(1025, 's'));
  refused(r, "stop[0]: 1025 bytes");
  r = TextRequest("hi", 1);
  r.set_ring_size(3);
  refused(r, "ring_size: 3 ranks asked, the group has 2");
  r = TextRequest("hi", 1);
  r.add_forced_tokens(-1);
  refused(r, "forced_tokens[0]: -1");
  r = TextRequest("", 1);
  r.mutable_prompt()->mutable_ids()->set_inline_("1 2 -1");
  refused(r, "position 2: -1 is not in 0..");
  r.mutable_prompt()->mutable_ids()->set_inline_("1 2147483648");
  refused(r, "position 1: 2147483648 is not in 0..");
  r.mutable_prompt()->mutable_ids()->set_inline_("1 99999999999999999999999");
  refused(r, "position 1");
  r.mutable_prompt()->mutable_ids()->set_inline_("1 2x");
  refused(r, "position 1: \"2x\"");
  r.mutable_prompt()->mutable_ids()->set_inline_(" \n ");
  refused(r, "no tokens");
  r.mutable_prompt()->mutable_ids()->set_upload_id("guess");
  refused(r, "no such upload", grpc::NOT_FOUND);
  // 1 MiB a rank at 16 bytes a token is 65,536 tokens a rank.
  r = TextRequest(std::string(200, 'x'), 200000);
  r.set_beyond_context(true);
  refused(r, "which has 1048576", grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ranks[0]->Count([](const Message& m) { return m.has_start() || m.has_prompt_ids(); }), 0u);
}

}  // namespace
}  // namespace rondo::coordinator
