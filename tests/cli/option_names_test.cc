#include "cli/option_names.h"

#include <gtest/gtest.h>

namespace rondo::cli {
namespace {

std::string Told(const std::string& message, absl::Span<const FieldOption> fields = RequestFields(),
                 grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT) {
  const grpc::Status told = WithOptionNames(grpc::Status(code, message), fields);
  EXPECT_EQ(told.error_code(), code);
  return told.error_message();
}

TEST(WithOptionNames, NamesWhatWasTyped) {
  EXPECT_EQ(Told("top_p is 7, must be in (0, 1]"), "--top-p is 7, must be in (0, 1]");
  EXPECT_EQ(Told("stop[2]: 0 bytes, 1 to 1024 are allowed"), "--stop[2]: 0 bytes, 1 to 1024 are allowed");
  EXPECT_EQ(Told("prompt.ids: position 3: 70000 is not in 0..99"), "--prompt-ids: position 3: 70000 is not in 0..99");
  EXPECT_EQ(Told("prompt.text is empty"), "--prompt is empty");
  EXPECT_EQ(Told("ring_size: 9 ranks asked, the group has 4"), "--ring-size: 9 ranks asked, the group has 4");
  EXPECT_EQ(Told("ring_size: 9 ranks asked, the group has 4", AttendFields()),
            "--workers: 9 ranks asked, the group has 4");
  EXPECT_EQ(Told("prompt: 90 tokens + max_tokens 20 = 110 exceed the trained context of 100 tokens (set beyond_context "
                 "to allow it)"),
            "prompt: 90 tokens + --max-tokens 20 = 110 exceed the trained context of 100 tokens (--beyond-context "
            "allows it)");
}

TEST(WithOptionNames, LeavesTheRestAlone) {
  EXPECT_EQ(Told("stopped by a rank"), "stopped by a rank");
  EXPECT_EQ(Told("the prompt has no tokens"), "the prompt has no tokens");
  EXPECT_EQ(Told("stop: x", RequestFields(), grpc::StatusCode::INTERNAL), "stop: x");
  EXPECT_TRUE(WithOptionNames(grpc::Status::OK, RequestFields()).ok());
}

}  // namespace
}  // namespace rondo::cli
