// NCCL with one rank that sends to itself: one send and one receive in a group, as a ring step has them, over message
// sizes, with memory of cudaMalloc as it is and registered with the communicator, as a ring's blocks are. Says that the
// library works here and what a step costs; the bandwidth is the card's own memory, not a link's.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cmath>
#include <optional>
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
  decltype(&ncclCommRegister) enlist = nullptr;
  decltype(&ncclCommDeregister) dismiss = nullptr;

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
         Find(library, "ncclRecv", &n->receive) && Find(library, "ncclCommRegister", &n->enlist) &&
         Find(library, "ncclCommDeregister", &n->dismiss);
}

// Registers memory while it lives. What the library refuses is said, and is no failure: a ring goes on without.
class Registered {
 public:
  Registered(const Nccl& nccl, ncclComm_t communicator, const DeviceArray<uint16_t>& memory)
      : nccl_(nccl), communicator_(communicator) {
    const ncclResult_t result = nccl.enlist(communicator, memory.get(), memory.bytes(), &handle_);
    if (result == ncclSuccess) return;
    handle_ = nullptr;
    Line("absent").Text("what", "registered memory").Text("why", nccl.error_string(result)).Say();
  }
  ~Registered() {
    if (handle_ != nullptr) nccl_.dismiss(communicator_, handle_);
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  bool done() const { return handle_ != nullptr; }

 private:
  const Nccl& nccl_;
  const ncclComm_t communicator_;
  void* handle_ = nullptr;
};

void MeasureSize(const Nccl& nccl, ncclComm_t communicator, size_t bytes, bool enlist) {
  DeviceArray<uint16_t> from(bytes / 2), to(bytes / 2);
  std::optional<Registered> of_from, of_to;
  if (enlist) {
    of_from.emplace(nccl, communicator, from);
    of_to.emplace(nccl, communicator, to);
    if (!of_from->done() || !of_to->done()) return;
  }
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
      .Text("memory", enlist ? "registered" : "as it is")
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
    for (const bool enlist : {false, true}) MeasureSize(nccl, communicator, bytes, enlist);
  }
  nccl.Require(nccl.destroy(communicator), "ncclCommDestroy");
}

}  // namespace rondo::gpu_check

#else

namespace rondo::gpu_check {
void MeasureExchange() { Line("absent").Text("what", "NCCL").Text("why", "nccl.h was not there at build time").Say(); }
}  // namespace rondo::gpu_check

#endif
