#include "tests/worker/transport/conformance.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

namespace rondo::testing {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

// Differs between senders, messages and places, so that a swapped, shifted or stale byte is noticed.
std::vector<std::byte> Pattern(int rank, uint64_t message, size_t size) {
  std::vector<std::byte> bytes(size);
  uint64_t x = 0x9e3779b97f4a7c15u * (rank + 1) + 0xd1342543de82ef95u * (message + 1);
  for (size_t i = 0; i < size; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    bytes[i] = static_cast<std::byte>(x >> 32);
  }
  return bytes;
}

struct Step {
  std::vector<std::byte> send;
  std::vector<std::byte> recv;
  size_t expected = 0;
  Transport::Pending pending;
};

int Next(const Transport& t) { return (t.rank() + 1) % t.world_size(); }
int Previous(const Transport& t) { return (t.rank() + t.world_size() - 1) % t.world_size(); }

// Rank r sends base bytes and r times `unequal` more.
void Post(Transport& t, uint64_t message, size_t base, size_t unequal, Step& step) {
  step.send = Pattern(t.rank(), message, base + t.rank() * unequal);
  step.expected = base + Previous(t) * unequal;
  step.recv.assign(base + t.world_size() * unequal, std::byte{0xee});
  absl::StatusOr<Transport::Pending> pending = t.SendRecv(Next(t), step.send, Previous(t), absl::MakeSpan(step.recv));
  ASSERT_TRUE(pending.ok()) << pending.status();
  step.pending = *pending;
}

void Finish(Transport& t, uint64_t message, Step& step) {
  const absl::StatusOr<size_t> got = t.Wait(step.pending, Soon());
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(*got, step.expected);
  const std::vector<std::byte> want = Pattern(Previous(t), message, *got);
  ASSERT_TRUE(std::equal(want.begin(), want.end(), step.recv.begin()));
  for (size_t i = *got; i < step.recv.size(); ++i) ASSERT_EQ(step.recv[i], std::byte{0xee}) << "written past the end";
}

}  // namespace

void CheckRingSteps(Transport& t, absl::Duration delay) {
  if (t.rank() == 1) absl::SleepFor(delay);
  uint64_t message = 0;
  for (const size_t base : {size_t{0}, size_t{1}, size_t{1} << 10, size_t{4000}, size_t{4} << 10, size_t{5000},
                            size_t{8} << 10, size_t{16} << 10, (size_t{16} << 10) + 1, size_t{1} << 20}) {
    for (const size_t unequal : {size_t{0}, size_t{1}, size_t{9999}}) {
      Step first, second;
      Post(t, message, base, unequal, first);
      Post(t, message + 1, 64, 0, second);
      Finish(t, message + 1, second);
      Finish(t, message, first);
      if (::testing::Test::HasFatalFailure()) return;
      message += 2;
    }
  }
}

void CheckOneRingStep(Transport& t, size_t bytes) {
  Step step;
  Post(t, bytes, bytes, 0, step);
  Finish(t, bytes, step);
}

void CheckShortAndSelf(Transport& t) {
  std::vector<std::byte> buffer(1000);
  const std::vector<std::byte> own = Pattern(t.rank(), 7, 600);
  absl::StatusOr<Transport::Pending> pending = t.SendRecv(t.rank(), own, t.rank(), absl::MakeSpan(buffer));
  ASSERT_TRUE(pending.ok()) << pending.status();
  const absl::StatusOr<size_t> got = t.Wait(*pending, Soon());
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(*got, 600u);
  ASSERT_TRUE(std::equal(own.begin(), own.end(), buffer.begin()));
}

void CheckReady(Transport& t) {
  std::vector<std::byte> buffer(600);
  const std::vector<std::byte> own = Pattern(t.rank(), 3, 600);
  // Nobody but this rank can send what it waits for here.
  const auto receive = t.SendRecv(Transport::kNobody, {}, t.rank(), absl::MakeSpan(buffer));
  ASSERT_TRUE(receive.ok()) << receive.status();
  for (int look = 0; look < 100; ++look) ASSERT_FALSE(t.Ready(*receive));
  const auto send = t.SendRecv(t.rank(), own, Transport::kNobody, {});
  ASSERT_TRUE(send.ok()) << send.status();
  Step step;
  Post(t, 4, 20000, 0, step);
  for (const Transport::Pending pending : {*receive, *send, step.pending}) {
    for (const absl::Time end = Soon(); !t.Ready(pending) && absl::Now() < end;) absl::SleepFor(absl::Microseconds(50));
    const absl::StatusOr<size_t> got = t.Wait(pending, absl::InfinitePast());
    ASSERT_TRUE(got.ok()) << got.status();
  }
  ASSERT_EQ(buffer, own);
}

void CheckAllGather(Transport& t) {
  for (int ranks = 1; ranks <= t.world_size(); ++ranks) {
    if (t.rank() >= ranks) continue;
    for (const size_t base : {size_t{0}, size_t{64}, size_t{10000}, size_t{300000}}) {
      std::vector<std::vector<std::byte>> data(ranks);
      std::vector<absl::Span<std::byte>> parts;
      for (int rank = 0; rank < ranks; ++rank) {
        data[rank].assign(base + 100 * rank, std::byte{0});
        if (rank == t.rank()) data[rank] = Pattern(rank, base, data[rank].size());
        parts.push_back(absl::MakeSpan(data[rank]));
      }
      const absl::Status status = t.AllGather(parts, Soon());
      ASSERT_TRUE(status.ok()) << status;
      for (int rank = 0; rank < ranks; ++rank) ASSERT_EQ(data[rank], Pattern(rank, base, data[rank].size())) << rank;
    }
  }
}

void CheckBroadcast(Transport& t) {
  for (int ranks = 1; ranks <= t.world_size(); ++ranks) {
    if (t.rank() >= ranks) continue;
    for (int root = 0; root < ranks; ++root) {
      for (const size_t size : {size_t{0}, size_t{100}, size_t{200000}}) {
        std::vector<std::byte> buffer(size);
        if (t.rank() == root) buffer = Pattern(root, size, size);
        const absl::Status status = t.Broadcast(root, ranks, absl::MakeSpan(buffer), Soon());
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(buffer, Pattern(root, size, size));
      }
    }
  }
}

void CheckSentBytes(Transport& t) {
  const uint64_t before = t.sent_bytes();
  CheckShortAndSelf(t);
  ASSERT_EQ(t.sent_bytes(), before);
  if (t.world_size() == 1) return;
  CheckOneRingStep(t, 12345);
  ASSERT_EQ(t.sent_bytes(), before + 12345);
}

void CheckTooLong(Transport& t) {
  std::vector<std::byte> bytes(200000);
  if (t.rank() == 0) {
    const auto posted = t.SendRecv(1, bytes, 0, {});
    ASSERT_TRUE(posted.ok()) << posted.status();
    absl::SleepFor(absl::Seconds(1));  // stays until rank 1 has looked
  } else if (t.rank() == 1) {
    const auto posted = t.SendRecv(1, {}, 0, absl::MakeSpan(bytes).subspan(0, 100000));
    ASSERT_TRUE(posted.ok()) << posted.status();
    const absl::Status status = t.Wait(*posted, Soon()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_EQ(std::string(status.message()), "recv from rank 0: expected at most 100000 bytes, got 200000");
    EXPECT_EQ(t.SendRecv(1, {}, 1, {}).status(), status) << "a failed transport is dead";
  }
}

void CheckDeadline(Transport& t) {
  std::vector<std::byte> bytes(100);
  const auto posted = t.SendRecv(t.rank(), {}, Next(t), absl::MakeSpan(bytes));
  ASSERT_TRUE(posted.ok()) << posted.status();
  // Nobody sends to the previous rank: everybody's empty message went to itself.
  if (t.world_size() == 1) return;
  const absl::Status status = t.Wait(*posted, absl::Now() + absl::Milliseconds(200)).status();
  // In one process a peer that gave up first is noticed as such.
  EXPECT_TRUE(absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status)) << status;
  EXPECT_NE(std::string(status.message()).find("rank " + std::to_string(Next(t))), std::string::npos) << status;
  EXPECT_EQ(t.SendRecv(t.rank(), {}, t.rank(), {}).status(), status);
}

void CheckAbort(Transport& t) {
  if (t.world_size() == 1) return;  // there is nobody to wait for
  std::vector<std::byte> bytes(1 << 20);
  const auto posted = t.SendRecv(t.rank(), {}, Next(t), absl::MakeSpan(bytes));
  ASSERT_TRUE(posted.ok()) << posted.status();
  std::thread aborter([&] {
    absl::SleepFor(absl::Milliseconds(50));
    t.Abort(absl::InternalError("the coordinator left"));
    t.Abort(absl::InternalError("again"));
  });
  const absl::Time start = absl::Now();
  const absl::Status status = t.Wait(*posted, Soon()).status();
  EXPECT_LT(absl::Now() - start, absl::Seconds(30)) << "ended by the deadline, not by Abort";
  aborter.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_NE(std::string(status.message()).find("the coordinator left"), std::string::npos) << status;
  EXPECT_EQ(t.Broadcast(0, t.world_size(), absl::MakeSpan(bytes), Soon()).code(), absl::StatusCode::kUnavailable);
}

}  // namespace rondo::testing
