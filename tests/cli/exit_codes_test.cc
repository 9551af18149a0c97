#include "cli/exit_codes.h"

#include <gtest/gtest.h>

#include "cli/json_out.h"

namespace rondo::cli {
namespace {

TEST(CodeOfRpc, IsWhatTheManualSays) {
  using grpc::Status;
  using grpc::StatusCode;
  EXPECT_EQ(CodeOfRpc(Status::OK, true), 0);
  EXPECT_EQ(CodeOfRpc(Status(StatusCode::INVALID_ARGUMENT, "temperature -1"), true), 2);
  EXPECT_EQ(CodeOfRpc(Status(StatusCode::RESOURCE_EXHAUSTED, "queue is full: 64 jobs"), true), 75);
  EXPECT_EQ(CodeOfRpc(Status(StatusCode::RESOURCE_EXHAUSTED, "needs 5 GiB of KV memory, the ring has 4"), true), 1);
  EXPECT_EQ(CodeOfRpc(Status(StatusCode::DEADLINE_EXCEEDED, ""), true), 124);
  EXPECT_EQ(CodeOfRpc(Status(StatusCode::UNAVAILABLE, "no group came back in 300 s"), true), 1);
  EXPECT_EQ(CodeOfRpc(Status(StatusCode::UNAVAILABLE, "Socket closed"), false), 69);
}

// A token may be half a character, and JSON is read by programs that stop at bad UTF-8.
TEST(JsonLine, ReplacesBrokenUtf8) {
  for (const char* broken : {"a\xE2\x80", "\xC0\x80", "\xED\xA0\x80", "\xFF"}) {
    const std::string line = JsonLine(Json{{"text", broken}});
    EXPECT_NE(line.find("\xEF\xBF\xBD"), std::string::npos) << line;
    EXPECT_TRUE(Json::accept(line)) << line;
  }
  EXPECT_EQ(JsonLine(Json{{"text", "日本語"}}), "{\"text\":\"日本語\"}");
}

}  // namespace
}  // namespace rondo::cli
