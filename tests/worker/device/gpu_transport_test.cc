// Ranks agree on what they compute on and how they reach each other before anything else is sent.
#include "worker/device/gpu_transport.h"

#include <gtest/gtest.h>

#include <thread>

#include "worker/transport/loopback_transport.h"

namespace rondo::testing {
namespace {

// What every rank is told.
std::vector<std::string> Agree(const std::vector<RankChoice>& choices) {
  LoopbackHub hub(static_cast<int>(choices.size()));
  std::vector<std::string> words(choices.size());
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < choices.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      const std::unique_ptr<Transport> control = hub.Connect(static_cast<int>(rank));
      const absl::Status agreed = AgreeOnPlace(choices[rank], *control, absl::Now() + absl::Seconds(30));
      words[rank] = std::string(agreed.message());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return words;
}

TEST(AgreeOnPlace, EqualRanksGoOn) {
  for (const RankChoice& choice : {RankChoice{false, TransportKind::kMpi}, RankChoice{true, TransportKind::kNccl}}) {
    EXPECT_EQ(Agree({choice, choice, choice}), std::vector<std::string>(3));
  }
}

TEST(AgreeOnPlace, AllHearOfTheFirstTwoThatDiffer) {
  const RankChoice cpu{false, TransportKind::kMpi}, gpu{true, TransportKind::kMpi}, ipc{true, TransportKind::kCudaIpc};
  EXPECT_EQ(Agree({cpu, cpu, gpu}),
            std::vector<std::string>(3, "rank 0 computes on its CPU and rank 2 on a GPU, whose bits differ; give all "
                                        "ranks the same --device"));
  EXPECT_EQ(Agree({ipc, gpu}), std::vector<std::string>(2, "rank 0 chose the transport cuda-ipc and rank 1 mpi; give "
                                                           "all ranks the same --transport"));
}

}  // namespace
}  // namespace rondo::testing
