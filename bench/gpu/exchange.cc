// NCCL with one rank that sends to itself: one send and one receive in a group, as a ring step has them, over message
// sizes. Says that the library works here and what a step costs; the bandwidth is the card's own memory, not a link's.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cmath>
#include <vector>

#include "bench/gpu/device_memory.h"
#include "bench/gpu/lines.h"
#include "bench/gpu/sections.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

namespace rondo::gpu_check {
namespace {

struct Nccl {
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetVersion) version = nullptr;
  decltype(&ncclGetUniqueId) unique_id = nullptr;
  decltype(&ncclCommInitRank) init = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;

  void Require(ncclResult_t result, const char* what) const {
    if (result != ncclSuccess) Fail(std::string("NCCL: ") + what + ": " + error_string(result));
  }
};

template <class F>
bool Find(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

bool FindAll(void* library, Nccl* n) {
  return Find(library, "ncclGetErrorString", &n->error_string) && Find(library, "ncclGetVersion", &n->version) &&
         Find(library, "ncclGetUniqueId", &n->unique_id) && Find(library, "ncclCommInitRank", &n->init) &&
         Find(library, "ncclCommDestroy", &n->destroy) && Find(library, "ncclGroupStart", &n->group_start) &&
         Find(library, "ncclGroupEnd", &n->group_end) && Find(library, "ncclSend", &n->send) &&
         Find(library, "ncclRecv", &n->receive);
}

void MeasureSize(const Nccl& nccl, ncclComm_t communicator, size_t bytes) {
  DeviceArray<uint16_t> from(bytes / 2), to(bytes / 2);
  FillRandom(from.get(), from.count(), bytes, 1);
  to.Poison();
  const auto exchange = [&] {
    nccl.Require(nccl.group_start(), "ncclGroupStart");
    nccl.Require(nccl.send(from.get(), bytes, ncclInt8, 0, communicator, nullptr), "ncclSend");
    nccl.Require(nccl.receive(to.get(), bytes, ncclInt8, 0, communicator, nullptr), "ncclRecv");
    nccl.Require(nccl.group_end(), "ncclGroupEnd");
  };
  const double ms = MedianMs({exchange}, 15).front();
  RequireFinished("NCCL exchange");
  Line("row")
      .Text("exchange", "one rank to itself")
      .Count("bytes", static_cast<int64_t>(bytes))
      .Number("ms", ms)
      .Number("gb_per_s", static_cast<double>(bytes) / ms * 1e-6)
      .Bool("pass", from.ToHost() == to.ToHost())
      .Say();
}

}  // namespace

void MeasureExchange() {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    Line("absent").Text("what", "NCCL").Text("why", dlerror()).Say();
    return;
  }
  Nccl nccl;
  if (!FindAll(library, &nccl)) Fail("NCCL: libnccl.so.2 lacks a function");
  int version = 0;
  nccl.Require(nccl.version(&version), "ncclGetVersion");
  Line("fact").Count("nccl", version).Say();
  ncclUniqueId id;
  nccl.Require(nccl.unique_id(&id), "ncclGetUniqueId");
  ncclComm_t communicator = nullptr;
  nccl.Require(nccl.init(&communicator, 1, id, 0), "ncclCommInitRank");
  for (const size_t bytes : {size_t{64} << 10, size_t{1} << 20, size_t{16} << 20, size_t{256} << 20}) {
    MeasureSize(nccl, communicator, bytes);
  }
  nccl.Require(nccl.destroy(communicator), "ncclCommDestroy");
}

}  // namespace rondo::gpu_check

#else

namespace rondo::gpu_check {
void MeasureExchange() { Line("absent").Text("what", "NCCL").Text("why", "nccl.h was not there at build time").Say(); }
}  // namespace rondo::gpu_check

#endif
