#include "worker/rpc/outbox.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace rondo {
namespace {

v1::RankMessage Message(uint32_t step, size_t bytes) {
  v1::RankMessage message;
  message.mutable_logits()->set_step(step);
  message.mutable_logits()->set_values(std::string(bytes, 'x'));
  return message;
}

TEST(Outbox, IsBoundedByBytes) {
  Outbox outbox({.bytes = 10'000, .patience = absl::Milliseconds(1)});
  uint64_t inside = 0;
  uint32_t step = 0;
  while (step < 1000 && outbox.Put(Message(step, 1000))) {
    inside += Message(step++, 1000).ByteSizeLong();
    ASSERT_LE(inside, 10'000u);
  }
  EXPECT_EQ(step, 9u);  // each a little more than 1,000 bytes
  // Room again, and in order.
  EXPECT_EQ(outbox.Take()->logits().step(), 0u);
  EXPECT_TRUE(outbox.Put(Message(step++, 1000)));
  EXPECT_FALSE(outbox.Put(Message(99, 1000)));
  for (uint32_t i = 1; i < step; ++i) EXPECT_EQ(outbox.Take()->logits().step(), i);
}

TEST(Outbox, AMessageLargerThanTheLimitPassesAlone) {
  Outbox outbox({.bytes = 100, .patience = absl::Milliseconds(1)});
  EXPECT_TRUE(outbox.Put(Message(0, 1000)));
  EXPECT_FALSE(outbox.Put(Message(1, 10)));
  outbox.Take();
  EXPECT_TRUE(outbox.Put(Message(1, 10)));
}

TEST(Outbox, WaitsForRoom) {
  Outbox outbox({.bytes = 3000, .patience = absl::Minutes(5)});
  std::thread reader([&] {
    for (uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(outbox.Take()->logits().step(), i);
  });
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_TRUE(outbox.Put(Message(i, 1000)));
  reader.join();
}

TEST(Outbox, ClosedItGivesOutTheRestAndHoldsUpNobody) {
  Outbox outbox({.bytes = 1000, .patience = absl::Minutes(5)});
  EXPECT_TRUE(outbox.Put(Message(0, 900)));
  std::thread waiting([&] { EXPECT_TRUE(outbox.Put(Message(1, 900))); });
  outbox.Close();
  waiting.join();
  EXPECT_TRUE(outbox.Put(Message(2, 900)));
  EXPECT_EQ(outbox.Take()->logits().step(), 0u);
  EXPECT_FALSE(outbox.Take().has_value());
}

}  // namespace
}  // namespace rondo
