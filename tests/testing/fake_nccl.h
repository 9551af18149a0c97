// NCCL without a GPU: communicators of ranks that are threads, with the real library's habits (calls that stay in
// progress, sends that wait for their receives, hangs in the place of errors) and faults by order; for tests.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/testing/fake_cuda.h"
#include "worker/transport/nccl/nccl_api.h"

namespace rondo::testing {

// One for all ranks; any thread. Sends and receives match in order for each pair of ranks, and a group is done when all
// of it is; different sizes at the two ends hang. By seed, calls answer kInProgress and take effect some looks later.
// What the real library leaves undefined is a violation of the host: a call on a communicator that is in progress or
// inside which another thread is, sends outside a group, registered memory freed; and so is what it only frowns at:
// memory registered twice, and registrations left when a communicator is finalized.
class FakeNccl : public NcclApi {
 public:
  FakeNccl(FakeHost& host, uint64_t seed);
  ~FakeNccl() override;

  NcclResult GetVersion(int* version) override;
  NcclResult GetUniqueId(NcclUniqueId* id) override;
  NcclResult CommInitRankConfig(NcclComm** comm, int ranks, const NcclUniqueId& id, int rank, int max_ctas) override;
  NcclResult CommGetAsyncError(NcclComm* comm, NcclResult* state) override;
  NcclResult CommFinalize(NcclComm* comm) override;
  NcclResult CommDestroy(NcclComm* comm) override;
  NcclResult CommAbort(NcclComm* comm) override;
  NcclResult CommRegister(NcclComm* comm, std::byte* memory, size_t bytes, void** handle) override;
  NcclResult CommDeregister(NcclComm* comm, void* handle) override;
  NcclResult MemAlloc(std::byte** memory, size_t bytes) override;
  NcclResult MemFree(std::byte* memory) override;
  NcclResult GroupStart() override;
  NcclResult GroupEnd() override;
  NcclResult Send(const std::byte* data, size_t bytes, int peer, NcclComm* comm, CudaStream* stream) override;
  NcclResult Recv(std::byte* data, size_t bytes, int peer, NcclComm* comm, CudaStream* stream) override;
  std::string ErrorString(NcclResult result) override;
  std::string LastError(NcclComm* comm) override;

  // The rank's communicator is in this state from now on.
  void BreakRank(int rank, NcclResult result, std::string last_error);
  // Groups that have been launched by all ranks.
  int groups();
  int open_comms();
  int in_progress_answers();
  int registrations();  // ever made

  int version = 22809;
  bool refuses_registration = false;

 private:
  struct Clique;
  struct Comm;
  struct Message {
    bool send = false;
    std::byte* data = nullptr;
    size_t bytes = 0;
    int peer = 0;
  };
  struct OpenGroup {
    int depth = 0;
    Comm* comm = nullptr;
    CudaStream* stream = nullptr;
    std::vector<Message> messages;
  };
  class Inside;  // a call on a communicator

  OpenGroup& ThisGroup();
  NcclResult AddToGroup(const Message& message, NcclComm* handle, CudaStream* stream);
  void Launch(Comm& comm, const OpenGroup& group);
  void RunGroup(Comm& comm, const std::vector<Message>& messages, const std::atomic<bool>& ending);
  bool Later();  // by seed: answer kInProgress

  FakeHost& host_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::mt19937_64 random_;
  uint64_t next_id_ = 1;
  int groups_ = 0;
  int in_progress_ = 0;
  std::map<std::string, std::shared_ptr<Clique>> cliques_;
  std::vector<std::unique_ptr<Comm>> comms_;
  struct Registration {
    Comm* comm = nullptr;
    std::byte* base = nullptr;
  };
  void DropRegistration(const Registration& registration);

  std::map<std::byte*, FakeCuda*> memory_;  // of MemAlloc, and its process
  uint64_t next_registration_ = 1;
  std::map<uint64_t, Registration> registrations_;  // by handle
};

}  // namespace rondo::testing
