// NCCL transports that go wrong: late and dead ranks, aborts, NCCL's own errors, and refusals at the start.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/worker/transport/gpu/gpu_group.h"
#include "worker/transport/device/preflight.h"
#include "worker/transport/nccl/nccl_transport.h"
#include "worker/transport/nccl/unique_id.h"

namespace rondo::testing {
namespace {

absl::Time In(int milliseconds) { return absl::Now() + absl::Milliseconds(milliseconds); }

bool Says(const absl::Status& status, const std::string& what) {
  return status.message().find(what) != absl::string_view::npos;
}

// Posts a message of `bytes` of device memory each way (kNobody: not) and waits for it.
absl::Status Exchange(GpuGroup& group, DeviceTransport& t, int to, int from, size_t bytes, absl::Time deadline) {
  FakeCuda& cuda = *group.cuda[t.rank()];
  std::byte* const out = cuda.MakeMemory(bytes).value();
  std::byte* const in = cuda.MakeMemory(bytes).value();
  const auto posted = t.SendRecv(to, {out, to == Transport::kNobody ? 0 : bytes}, from, {in, bytes});
  if (!posted.ok()) return posted.status();
  return t.Wait(*posted, deadline).status();
}

// Every rank ends, nobody later than the agreement after the first, and NCCL's kernels that wait for the late rank are
// ended as well: else the device would not come to rest, which the fake notes.
TEST(NcclFaults, ARankThatIsLateEndsEverybodyAtTheDeadline) {
  GpuGroup group(3, 3, 1);
  group.Run(MakeNccl, [&](DeviceTransport& t) {
    absl::Status status;
    if (t.rank() == 2) {  // comes when it is too late
      while (status.ok()) {
        absl::SleepFor(absl::Milliseconds(20));
        status = t.SendRecv(Transport::kNobody, {}, Transport::kNobody, {}).status();
      }
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_TRUE(Says(status, "before the deadline")) << status;
      return;
    }
    // Rank 1 sends to the late rank: its NCCL group is on the GPU and hangs there.
    status = t.rank() == 1 ? Exchange(group, t, 2, 0, 1000, In(400)) : Exchange(group, t, 1, 2, 1000, In(400));
    EXPECT_TRUE(absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(Says(status, "rank 2")) << status;
  });
}

TEST(NcclFaults, AnybodyMayAbortFromAnyThread) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    GpuGroup group(4, 4, seed);
    group.Run(MakeNccl, [&](DeviceTransport& t) {
      std::vector<std::thread> aborters;
      for (int i = 0; i < 3 && t.rank() == 1; ++i) {
        aborters.emplace_back([&t, i, seed] {
          absl::SleepFor(absl::Milliseconds(5 * static_cast<int64_t>(seed)));
          t.Abort(absl::InternalError(absl::StrCat("thread ", i, " had enough")));
        });
      }
      absl::Status status;
      while (status.ok()) {
        status = Exchange(group, t, (t.rank() + 1) % 4, (t.rank() + 3) % 4, 3000, absl::Now() + absl::Seconds(60));
      }
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_TRUE(Says(status, "rank 1 aborted the group: thread ")) << status;
      EXPECT_EQ(t.SendRecv(Transport::kNobody, {}, Transport::kNobody, {}).status(), status) << "the first error stays";
      for (std::thread& aborter : aborters) aborter.join();
    });
    EXPECT_EQ(group.nccl.open_comms(), 0);
  }
}

// Ranks that wait for nothing hear of it too.
TEST(NcclFaults, AnIdleRankHearsOfAnAbort) {
  GpuGroup group(2, 2, 1);
  group.Run(MakeNccl, [&](DeviceTransport& t) {
    if (t.rank() == 0) t.Abort(absl::InternalError("enough"));
    const absl::Time until = absl::Now() + absl::Seconds(30);
    absl::Status status;
    while (status.ok() && absl::Now() < until) {
      absl::SleepFor(absl::Milliseconds(5));
      status = t.SendRecv(Transport::kNobody, {}, Transport::kNobody, {}).status();
    }
    EXPECT_TRUE(Says(status, "rank 0 aborted the group: enough")) << status;
  });
}

TEST(NcclFaults, ADeadRankEndsTheOthers) {
  GpuGroup group(3, 3, 1);
  group.Run(
      [](GpuGroup& g, int rank) { return MakeNccl(g, rank); },
      [&](DeviceTransport* t, int rank) {
        ASSERT_NE(t, nullptr) << group.made[rank];
        if (rank == 2) {
          group.loopback[2]->Abort(absl::UnavailableError("killed"));  // its connection breaks, as a dead process's
          return;
        }
        const absl::Status status = Exchange(group, *t, 1 - rank, 2, 1000, absl::Now() + absl::Seconds(60));
        EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      });
  EXPECT_EQ(group.nccl.open_comms(), 0);
}

TEST(NcclFaults, AMessageFromAnotherRankIsNotTaken) {
  GpuGroup group(3, 3, 1);
  group.Run(MakeNccl, [&](DeviceTransport& t) {
    absl::Status status;
    if (t.rank() == 0) status = Exchange(group, t, 2, 1, 100, absl::Now() + absl::Seconds(60));  // it was to send to 1
    if (t.rank() == 1) status = Exchange(group, t, 2, 0, 100, In(300));
    if (t.rank() == 2) status = Exchange(group, t, 0, 1, 100, absl::Now() + absl::Seconds(60));
    EXPECT_FALSE(status.ok());
    if (t.rank() == 1) {
      EXPECT_EQ(std::string(status.message()),
                "recv from rank 0 (100 bytes), send to rank 2 (100 bytes): not finished before the deadline");
    }
  });
}

TEST(NcclFaults, AnErrorOfNcclEndsEverybodyWithItsText) {
  GpuGroup group(3, 3, 1);
  group.Run(MakeNccl, [&](DeviceTransport& t) {
    if (t.rank() == 1) group.nccl.BreakRank(1, NcclResult::kRemoteError, "NET/IB: got completion with error 12");
    absl::Status status;
    while (status.ok()) {
      status = Exchange(group, t, (t.rank() + 1) % 3, (t.rank() + 2) % 3, 1000, absl::Now() + absl::Seconds(60));
    }
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(
        Says(status, "remote process exited or there was a network error (NET/IB: got completion with error 12)"))
        << status;
    if (t.rank() != 1) {
      EXPECT_TRUE(Says(status, "rank 1 failed: NCCL: ")) << status;
    }
  });
}

TEST(NcclFaults, ARankThatDoesNotComeToTheStartIsWaitedForUntilTheDeadline) {
  GpuGroup group(2, 2, 1);
  const auto make = [](GpuGroup& g, int rank) -> GpuGroup::Made {
    if (rank == 1) return absl::CancelledError("does not come");
    return MakeNcclTransport(*g.control[0], *g.cuda[0], g.nccl, {.device = 0, .epoch = 7}, {}, In(200));
  };
  group.Run(make, [](DeviceTransport*, int) {});
  EXPECT_TRUE(absl::IsDeadlineExceeded(group.made[0])) << group.made[0];
}

// What NCCL does with an id of its own: the ranks never find each other.
TEST(NcclFaults, RanksOfDifferentUniqueIdsGiveUpAtTheDeadline) {
  GpuGroup group(2, 2, 1);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      ASSERT_TRUE(group.cuda[rank]->Use(rank).ok());
      NcclUniqueId id;
      id.bytes[0] = static_cast<char>(rank);
      const auto path = NcclPath::Create(group.nccl, *group.cuda[rank], rank, 2, id, {}, In(200));
      EXPECT_TRUE(absl::IsDeadlineExceeded(path.status())) << path.status();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(group.nccl.open_comms(), 0) << "a communicator that never came up must be aborted";
}

TEST(NcclFaults, AUniqueIdOfAnOlderEpochIsRefused) {
  GpuGroup group(2, 2, 1);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto id = ExchangeUniqueId(*group.control[rank], group.nccl, rank == 0 ? 6 : 7, In(60000));
      if (rank == 0) {
        EXPECT_TRUE(id.ok()) << id.status();
      } else {
        EXPECT_EQ(id.status(), absl::FailedPreconditionError(
                                   "NCCL unique id of epoch 6 from rank 0 refused: this rank is of epoch 7"));
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// Fencing below the start: a control message of another epoch ends the transport.
TEST(NcclFaults, AMessageOfAnOlderEpochIsRefused) {
  GpuGroup group(2, 2, 1);
  const auto make = [](GpuGroup& g, int rank) {
    return DeviceTransport::Create(*g.control[rank], *g.cuda[rank], nullptr,
                                   {.device = rank, .epoch = static_cast<uint64_t>(6 + rank)});
  };
  group.Run(make, [&](DeviceTransport& t) {
    const absl::Status status = Exchange(group, t, 1 - t.rank(), 1 - t.rank(), 100, absl::Now() + absl::Seconds(60));
    EXPECT_TRUE(Says(status, "is of epoch")) << status;
  });
}

absl::Status StartWith(GpuGroup& group, const std::function<void(DeviceTransportOptions&, int rank)>& change) {
  group.Run(
      [&](GpuGroup& g, int rank) {
        DeviceTransportOptions options{.device = g.device(rank), .epoch = 7};
        change(options, rank);
        return MakeNcclTransport(*g.control[rank], *g.cuda[rank], g.nccl, options, {}, In(60000));
      },
      [](DeviceTransport*, int) {});
  for (const absl::Status& status : group.made) EXPECT_EQ(status, group.made[0]) << "all ranks refuse alike";
  return group.made[0];
}

TEST(NcclStart, OneGpuForTwoRanksIsRefused) {
  GpuGroup group(3, 2, 1);
  const absl::Status status = StartWith(group, [](DeviceTransportOptions&, int) {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Says(status, "rank 0 and rank 2 on ")) << status;
  EXPECT_TRUE(Says(status, "both use GPU-00000000-0000-0000-0000-000000000000")) << status;
  EXPECT_TRUE(Says(status, "cuda-ipc")) << status;
}

TEST(NcclStart, EpochsThatDifferAreRefused) {
  GpuGroup group(2, 2, 1);
  const absl::Status status = StartWith(group, [](DeviceTransportOptions& o, int rank) { o.epoch = 6 + rank; });
  EXPECT_TRUE(Says(status, ": epochs 6 and 7;")) << status;
}

TEST(NcclStart, ADeviceThatIsNotThereIsNamedToEveryRank) {
  GpuGroup group(2, 2, 1);
  group.Run(
      [&](GpuGroup& g, int rank) {
        return MakeNcclTransport(*g.control[rank], *g.cuda[rank], g.nccl, {.device = rank == 1 ? 9 : 0, .epoch = 7}, {},
                                 In(60000));
      },
      [](DeviceTransport*, int) {});
  EXPECT_TRUE(Says(group.made[0], "rank 1: cudaSetDevice(9): invalid device ordinal")) << group.made[0];
  EXPECT_TRUE(Says(group.made[1], "cudaSetDevice(9)")) << group.made[1];
}

RankFacts Facts(uint8_t gpu) {
  RankFacts facts;
  facts.transport = "nccl";
  facts.host = gpu < 8 ? "node1" : "node2";
  facts.boot_id = facts.host;
  facts.nccl = 22809;
  facts.uuid[15] = gpu;
  return facts;
}

TEST(Preflight, NamesThePairAndWhatDiffers) {
  EXPECT_TRUE(CheckFacts({Facts(0), Facts(1), Facts(8)}).ok());
  std::vector<RankFacts> facts{Facts(0), Facts(1), Facts(8)};
  facts[2].nccl = 22703;
  EXPECT_EQ(CheckFacts(facts).message(),
            "rank 0 on node1 and rank 2 on node2: NCCL versions 2.28.9 and 2.27.3; install the same on all machines");
  facts = {Facts(0), Facts(1), Facts(8)};
  facts[1].transport = "cuda-ipc";
  EXPECT_TRUE(Says(CheckFacts(facts), "rank 0 on node1 and rank 1 on node1: transports nccl and cuda-ipc"));
  facts = {Facts(0), Facts(0), Facts(8)};
  for (RankFacts& f : facts) f.transport = "cuda-ipc";
  EXPECT_TRUE(Says(CheckFacts(facts), "rank 0 is on node1 and rank 2 is on node2") ||
              Says(CheckFacts(facts), "rank 0 is on node1 and rank 2 on node2"))
      << CheckFacts(facts);
  facts.pop_back();
  EXPECT_TRUE(CheckFacts(facts).ok()) << "ranks share a GPU with cuda-ipc";
}

TEST(Preflight, SaysWhatARankIs) {
  RankFacts facts = Facts(1);
  facts.device_name = "NVIDIA H200";
  facts.capability = 90;
  facts.driver = 13000;
  facts.interface = "eth0";
  facts.shm_bytes = uint64_t{64} << 20;
  EXPECT_EQ(Describe(facts, 3),
            "rank 3: NVIDIA H200 (device 0, 9.0, GPU-00000000-0000-0000-0000-000000000001) on node1, driver CUDA 13.0, "
            "NCCL 2.28.9, interface eth0, /dev/shm 64 MiB free");
  EXPECT_NE(ShmAdvice(facts, 3).find("--shm-size=1g"), std::string::npos);
  facts.shm_bytes = uint64_t{1} << 30;
  EXPECT_EQ(ShmAdvice(facts, 3), "");
}

}  // namespace
}  // namespace rondo::testing
