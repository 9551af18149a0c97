#include "cli/up/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/up/backoff.h"

namespace rondo::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

UpOptions FourWorkers() {
  UpOptions options;
  options.workers = 4;
  options.model = "/m.gguf";
  options.bin = "/bin";
  options.worker_arguments = {"--kv-type", "bf16"};
  return options;
}

// mpirun refuses root, refuses more ranks than cores, and pins two ranks to one core each unless told otherwise.
TEST(GroupCommand, RunsAnyNumberOfRanksAsAnyUser) {
  EXPECT_THAT(GroupCommand(FourWorkers(), "127.0.0.1:9", true),
              ElementsAre("mpirun", "-np", "4", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle",
                          "1", "--allow-run-as-root", "/bin/rondo-worker", "--coordinator", "127.0.0.1:9",
                          "--transport", "auto", "--model", "/m.gguf", "--kv-type", "bf16"));
  EXPECT_THAT(GroupCommand(FourWorkers(), "127.0.0.1:9", false), Not(Contains("--allow-run-as-root")));
}

// Ranks on GPUs are processes under mpirun whatever they talk by, and hear of the device as it was given.
TEST(GroupCommand, DeviceAndTransportArePassedOn) {
  UpOptions options = FourWorkers();
  options.device = "cuda:1";
  for (const char* transport : {"auto", "mpi", "nccl", "cuda-ipc"}) {
    options.transport = transport;
    EXPECT_THAT(GroupCommand(options, "127.0.0.1:9", false),
                ElementsAre("mpirun", "-np", "4", "--oversubscribe", "--bind-to", "none", "--mca",
                            "mpi_yield_when_idle", "1", "/bin/rondo-worker", "--coordinator", "127.0.0.1:9",
                            "--transport", transport, "--model", "/m.gguf", "--device", "cuda:1", "--kv-type", "bf16"));
  }
  options.transport = "loopback";
  options.device = "cpu";
  EXPECT_THAT(GroupCommand(options, "127.0.0.1:9", false),
              ElementsAre("/bin/rondo-worker", "--coordinator", "127.0.0.1:9", "--transport", "loopback", "--model",
                          "/m.gguf", "--device", "cpu", "--ranks", "4", "--kv-type", "bf16"));
}

TEST(CheckDeviceName, TakesWhatWorkersTake) {
  for (const char* good : {"auto", "cpu", "cuda", "cuda:0", "cuda:15"}) EXPECT_EQ(CheckDeviceName(good), "") << good;
  for (const char* bad : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda0", "cuda:1,2"}) {
    EXPECT_EQ(CheckDeviceName(bad), std::string("must be auto, cpu, cuda or cuda:INDEX, not ") + bad);
  }
}

TEST(GroupCommand, LoopbackIsOneProcess) {
  UpOptions options = FourWorkers();
  options.transport = "loopback";
  EXPECT_THAT(GroupCommand(options, "127.0.0.1:9", true),
              ElementsAre("/bin/rondo-worker", "--coordinator", "127.0.0.1:9", "--transport", "loopback", "--model",
                          "/m.gguf", "--ranks", "4", "--kv-type", "bf16"));
}

TEST(Backoff, DoublesUpToFiveSecondsAndGivesUp) {
  Backoff backoff;
  std::vector<int64_t> waits;
  while (!backoff.exhausted()) waits.push_back(backoff.Failed().count());
  EXPECT_THAT(waits, ElementsAre(200, 400, 800, 1600, 3200));
  EXPECT_EQ(backoff.Failed().count(), 5000);
  backoff.Succeeded();
  EXPECT_FALSE(backoff.exhausted());
  EXPECT_EQ(backoff.Failed().count(), 200);
}

}  // namespace
}  // namespace rondo::cli
