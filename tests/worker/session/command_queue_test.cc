#include "worker/session/command_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/time/clock.h"

namespace rondo {
namespace {

using ::testing::HasSubstr;

Command Numbered(uint64_t number) { return {number, CancelJob{"job", ""}}; }

std::vector<uint64_t> Numbers(const std::vector<Command>& commands) {
  std::vector<uint64_t> numbers;
  for (const Command& command : commands) numbers.push_back(command.number);
  return numbers;
}

absl::Time Soon() { return absl::Now() + absl::Milliseconds(20); }
absl::Time Late() { return absl::Now() + absl::Minutes(1); }

TEST(CommandQueue, NumbersStartAtOneAndHaveNoGaps) {
  CommandQueue queue;
  EXPECT_EQ(queue.Push(Numbered(0)).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(queue.Push(Numbered(2)).code(), absl::StatusCode::kInternal);
  ASSERT_TRUE(queue.Push(Numbered(1)).ok());
  ASSERT_TRUE(queue.Push(Numbered(2)).ok());
  const absl::Status gap = queue.Push(Numbered(4));
  EXPECT_EQ(gap.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(gap.message()), HasSubstr("command number 4 arrived, expected 3"));
  EXPECT_EQ(queue.Push(Numbered(2)).code(), absl::StatusCode::kInternal) << "a number twice";
  EXPECT_EQ(queue.LastNumber(), 2u) << "a refused command must leave no trace";
  ASSERT_TRUE(queue.Push(Numbered(3)).ok());
  EXPECT_EQ(Numbers(*queue.TakeThrough(3, Late())), (std::vector<uint64_t>{1, 2, 3}));
}

TEST(CommandQueue, TakeThroughLeavesLaterCommands) {
  CommandQueue queue;
  for (uint64_t number = 1; number <= 5; ++number) ASSERT_TRUE(queue.Push(Numbered(number)).ok());
  EXPECT_EQ(Numbers(*queue.TakeThrough(0, Soon())), (std::vector<uint64_t>{}));
  EXPECT_EQ(Numbers(*queue.TakeThrough(2, Soon())), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(Numbers(*queue.TakeThrough(2, Soon())), (std::vector<uint64_t>{})) << "taken already";
  EXPECT_EQ(Numbers(*queue.TakeThrough(4, Soon())), (std::vector<uint64_t>{3, 4}));
  EXPECT_EQ(queue.LastNumber(), 5u);
  ASSERT_TRUE(queue.WaitForAny().ok());
  EXPECT_EQ(Numbers(*queue.TakeThrough(5, Soon())), (std::vector<uint64_t>{5}));
}

TEST(CommandQueue, TakeThroughWaitsForWhatHasNotArrived) {
  CommandQueue queue;
  ASSERT_TRUE(queue.Push(Numbered(1)).ok());
  std::thread late([&] {
    for (uint64_t number = 2; number <= 4; ++number) {
      absl::SleepFor(absl::Milliseconds(5));
      EXPECT_TRUE(queue.Push(Numbered(number)).ok());
    }
  });
  EXPECT_EQ(Numbers(*queue.TakeThrough(3, Late())), (std::vector<uint64_t>{1, 2, 3}));
  late.join();
  EXPECT_EQ(Numbers(*queue.TakeThrough(4, Late())), (std::vector<uint64_t>{4}));
}

TEST(CommandQueue, TakeThroughGivesUpAtItsDeadlineAndKeepsTheCommands) {
  CommandQueue queue;
  ASSERT_TRUE(queue.Push(Numbered(1)).ok());
  const auto taken = queue.TakeThrough(2, Soon());
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr("taken command 2, but only 1 arrived"));
  EXPECT_EQ(Numbers(*queue.TakeThrough(1, Soon())), (std::vector<uint64_t>{1}));
}

TEST(CommandQueue, TheFirstReasonForClosingCounts) {
  CommandQueue queue;
  EXPECT_FALSE(queue.closed());
  EXPECT_TRUE(queue.close_reason().ok());
  queue.Close(absl::AbortedError("first"));
  queue.Close(absl::InternalError("second"));
  EXPECT_TRUE(queue.closed());
  EXPECT_EQ(queue.close_reason(), absl::AbortedError("first"));
  EXPECT_EQ(queue.WaitForAny(), absl::AbortedError("first"));
}

TEST(CommandQueue, ClosingWakesBothWaiters) {
  CommandQueue queue;
  ASSERT_TRUE(queue.Push(Numbered(1)).ok());
  std::thread closer([&] {
    absl::SleepFor(absl::Milliseconds(10));
    queue.Close(absl::AbortedError("over"));
  });
  EXPECT_EQ(queue.TakeThrough(2, Late()).status(), absl::AbortedError("over"));
  closer.join();

  CommandQueue idle;
  std::thread other([&] {
    absl::SleepFor(absl::Milliseconds(10));
    idle.Close(absl::AbortedError("over"));
  });
  EXPECT_EQ(idle.WaitForAny(), absl::AbortedError("over"));
  other.join();
}

TEST(CommandQueue, WhatWasQueuedBeforeTheCloseCanStillBeTaken) {
  CommandQueue queue;
  ASSERT_TRUE(queue.Push(Numbered(1)).ok());
  queue.Close(absl::AbortedError("over"));
  EXPECT_TRUE(queue.WaitForAny().ok());
  EXPECT_EQ(Numbers(*queue.TakeThrough(1, Late())), (std::vector<uint64_t>{1}));
  EXPECT_EQ(queue.WaitForAny(), absl::AbortedError("over"));
}

}  // namespace
}  // namespace rondo
