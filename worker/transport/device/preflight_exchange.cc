// Gathering the facts of this rank, and spreading them.
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "worker/transport/device/preflight.h"

namespace rondo {
namespace {

// RankFacts as it travels, between processes of one build: Rondo's version is compared when ranks join.
struct FactsWire {
  char transport[16];
  char host[64];
  char boot_id[40];
  char device_name[64];
  char interface[32];
  uint8_t uuid[16];
  uint64_t epoch;
  int64_t process;
  uint64_t shm_bytes;
  int32_t device, capability, driver, nccl;
};
static_assert(std::is_trivially_copyable_v<FactsWire>);

// A status as it travels; longer messages are cut.
struct StatusWire {
  int32_t code;
  char message[508];
};

template <size_t n>
void Put(char (&to)[n], const std::string& from) {
  std::memset(to, 0, n);
  std::memcpy(to, from.data(), std::min(from.size(), n - 1));
}

template <size_t n>
std::string Get(const char (&from)[n]) {
  return std::string(from, strnlen(from, n));
}

template <typename T>
absl::StatusOr<std::vector<T>> GatherAll(Transport& control, const T& own, absl::Time deadline) {
  std::vector<T> all(control.world_size());
  all[control.rank()] = own;
  std::vector<absl::Span<std::byte>> parts;
  for (T& one : all) parts.push_back({reinterpret_cast<std::byte*>(&one), sizeof(T)});
  if (absl::Status gathered = control.AllGather(parts, deadline); !gathered.ok()) return gathered;
  return all;
}

// What NCCL is told to use, or the first interface that is up and not the loopback.
std::string Interface() {
  if (const char* const named = std::getenv("NCCL_SOCKET_IFNAME")) return named;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::string found;
  for (const ifaddrs* i = list; i != nullptr && found.empty(); i = i->ifa_next) {
    if ((i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_LOOPBACK) == 0 && i->ifa_addr != nullptr)
      found = i->ifa_name;
  }
  freeifaddrs(list);
  return found;
}

// One process on each machine and in each container may have the same pid; drawn numbers of 64 bits differ.
int64_t ProcessNumber() {
  static const int64_t number = [] {
    std::random_device random;
    return static_cast<int64_t>(uint64_t{random()} << 32 | random());
  }();
  return number;
}

}  // namespace

absl::StatusOr<RankFacts> GatherFacts(CudaApi& cuda, int device) {
  RankFacts facts;
  const absl::StatusOr<CudaDeviceFacts> card = cuda.Facts(device);
  if (!card.ok()) return card.status();
  const absl::StatusOr<int> driver = cuda.DriverVersion();
  if (!driver.ok()) return driver.status();
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  facts.host = host;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> facts.boot_id;
  facts.process = ProcessNumber();
  facts.device = device;
  facts.device_name = card->name;
  facts.uuid = card->uuid;
  facts.capability = card->capability;
  facts.driver = *driver;
  struct statvfs shm;
  if (statvfs("/dev/shm", &shm) == 0) facts.shm_bytes = uint64_t{shm.f_bavail} * shm.f_frsize;
  facts.interface = Interface();
  return facts;
}

absl::StatusOr<std::vector<RankFacts>> ExchangeFacts(Transport& control, const RankFacts& own, absl::Time deadline) {
  FactsWire wire = {};
  Put(wire.transport, own.transport);
  Put(wire.host, own.host);
  Put(wire.boot_id, own.boot_id);
  Put(wire.device_name, own.device_name);
  Put(wire.interface, own.interface);
  std::copy(own.uuid.begin(), own.uuid.end(), wire.uuid);
  wire.epoch = own.epoch;
  wire.process = own.process;
  wire.shm_bytes = own.shm_bytes;
  wire.device = own.device;
  wire.capability = own.capability;
  wire.driver = own.driver;
  wire.nccl = own.nccl;
  const absl::StatusOr<std::vector<FactsWire>> all = GatherAll(control, wire, deadline);
  if (!all.ok()) return all.status();
  std::vector<RankFacts> facts;
  for (const FactsWire& w : *all) {
    RankFacts& f = facts.emplace_back();
    f.transport = Get(w.transport);
    f.host = Get(w.host);
    f.boot_id = Get(w.boot_id);
    f.device_name = Get(w.device_name);
    f.interface = Get(w.interface);
    std::copy(std::begin(w.uuid), std::end(w.uuid), f.uuid.begin());
    f.epoch = w.epoch;
    f.process = w.process;
    f.shm_bytes = w.shm_bytes;
    f.device = w.device;
    f.capability = w.capability;
    f.driver = w.driver;
    f.nccl = w.nccl;
  }
  return facts;
}

absl::Status AgreeAllWell(Transport& control, const absl::Status& own, absl::Time deadline) {
  StatusWire wire = {};
  wire.code = static_cast<int32_t>(own.code());
  Put(wire.message, std::string(own.message()));
  const absl::StatusOr<std::vector<StatusWire>> all = GatherAll(control, wire, deadline);
  if (!own.ok()) return own;
  if (!all.ok()) return all.status();
  for (size_t rank = 0; rank < all->size(); ++rank) {
    const StatusWire& status = (*all)[rank];
    if (status.code == 0) continue;
    return absl::Status(static_cast<absl::StatusCode>(status.code),
                        absl::StrCat("rank ", rank, ": ", Get(status.message)));
  }
  return absl::OkStatus();
}

}  // namespace rondo
