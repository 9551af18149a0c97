#include "worker/transport/device/preflight.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rondo {
namespace {

std::string UuidText(const std::array<uint8_t, 16>& uuid) {
  const std::string hex = absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(uuid.data()), 16));
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-", hex.substr(16, 4),
                      "-", hex.substr(20));
}

// 22809 as 2.28.9.
std::string NcclText(int version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

absl::Status CheckPair(const RankFacts& a, int rank_a, const RankFacts& b, int rank_b) {
  const auto differ = [&](const char* what, const std::string& of_a, const std::string& of_b, const char* advice) {
    return absl::FailedPreconditionError(absl::StrCat("rank ", rank_a, " on ", a.host, " and rank ", rank_b, " on ",
                                                      b.host, ": ", what, " ", of_a, " and ", of_b, advice));
  };
  if (a.transport != b.transport) {
    return differ("transports", a.transport, b.transport, "; give all ranks the same --transport");
  }
  if (a.epoch != b.epoch) {
    return differ("epochs", absl::StrCat(a.epoch), absl::StrCat(b.epoch),
                  "; one of them is left over from an earlier start");
  }
  if (a.nccl != b.nccl) {
    return differ("NCCL versions", NcclText(a.nccl), NcclText(b.nccl), "; install the same on all machines");
  }
  if (a.transport == "nccl" && a.uuid == b.uuid) {
    return absl::FailedPreconditionError(absl::StrCat("rank ", rank_a, " and rank ", rank_b, " on ", a.host,
                                                      " both use ", UuidText(a.uuid),
                                                      ", and NCCL takes one rank a GPU; start no more ranks a machine "
                                                      "than it has GPUs, or use --transport cuda-ipc"));
  }
  if (a.transport == "cuda-ipc" && a.boot_id != b.boot_id) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank_a, " is on ", a.host, " and rank ", rank_b, " on ", b.host,
                     ", and cuda-ipc joins ranks of one machine; use --transport nccl"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFacts(const std::vector<RankFacts>& ranks) {
  for (size_t b = 1; b < ranks.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      absl::Status fits = CheckPair(ranks[a], static_cast<int>(a), ranks[b], static_cast<int>(b));
      if (!fits.ok()) return fits;
    }
  }
  return absl::OkStatus();
}

std::string Describe(const RankFacts& f, int rank) {
  std::string text = absl::StrFormat("rank %d: %s (device %d, %d.%d, %s) on %s, driver CUDA %d.%d", rank, f.device_name,
                                     f.device, f.capability / 10, f.capability % 10, UuidText(f.uuid), f.host,
                                     f.driver / 1000, f.driver % 1000 / 10);
  if (f.nccl != 0) absl::StrAppend(&text, ", NCCL ", NcclText(f.nccl));
  absl::StrAppend(&text, ", interface ", f.interface.empty() ? "none" : f.interface, ", /dev/shm ", f.shm_bytes >> 20,
                  " MiB free");
  return text;
}

std::string ShmAdvice(const RankFacts& f, int rank) {
  if (f.transport != "nccl" || f.shm_bytes >= uint64_t{1} << 30) return {};
  return absl::StrCat("rank ", rank, " on ", f.host, ": /dev/shm has ", f.shm_bytes >> 20,
                      " MiB free; NCCL wants about 1 GiB where GPUs of a machine cannot reach each other directly "
                      "(docker run --shm-size=1g)");
}

}  // namespace rondo
