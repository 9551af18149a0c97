// Our copies of what crosses into NCCL, against nccl.h.
#include "worker/transport/nccl/nccl_abi.h"

#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "worker/transport/nccl/nccl_api.h"

namespace rondo::testing {
namespace {

static_assert(sizeof(NcclAbiUniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(NcclUniqueId) == NCCL_UNIQUE_ID_BYTES);
static_assert(kNcclAbiUint8 == ncclUint8);
static_assert(static_cast<int>(NcclResult::kInProgress) == ncclInProgress);
static_assert(static_cast<int>(NcclResult::kRemoteError) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::kInvalidUsage) == ncclInvalidUsage);

TEST(NcclAbi, TheConfigurationIsTheHeadersOwn) {
  static_assert(sizeof(NcclAbiConfig) == sizeof(ncclConfig_t));
  ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  theirs.blocking = 0;
  theirs.maxCTAs = 6;
  NcclAbiConfig ours;
  ours.version = NCCL_VERSION_CODE;  // the library takes that of any release
  ours.blocking = 0;
  ours.max_ctas = 6;
  EXPECT_EQ(std::memcmp(&theirs, &ours, sizeof(ours)), 0);
}

TEST(NcclLibrary, OneThatIsNotThereIsNamed) {
  const auto nccl = LoadNccl("libnccl.so.1");
  EXPECT_EQ(nccl.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(nccl.status().message()).find("NCCL is missing: libnccl.so.1"), std::string::npos);
}

TEST(NcclLibrary, AnotherLibraryIsToldByTheCallItLacks) {
  EXPECT_EQ(std::string(LoadNccl("libz.so.1").status().message()),
            "NCCL has no ncclGetVersion: Rondo needs NCCL 2.28 or newer");
}

// The real one, as far as it goes without a GPU.
TEST(NcclLibrary, TheInstalledOneFillsTheTable) {
  auto nccl = LoadNccl();
  if (!nccl.ok()) nccl = LoadNccl(RONDO_NCCL_LIBRARY);
  if (!nccl.ok()) GTEST_SKIP() << nccl.status();
  int version = 0;
  ASSERT_EQ((*nccl)->GetVersion(&version), NcclResult::kSuccess);
  EXPECT_GE(version, kOldestNccl);
  EXPECT_EQ((*nccl)->ErrorString(NcclResult::kInProgress), "NCCL operation in progress");
  // No ranks is an error with a GPU or without.
  NcclComm* comm = nullptr;
  const NcclResult result = (*nccl)->CommInitRankConfig(&comm, 0, {}, 0, 8);
  const absl::Status status = NcclStatus(**nccl, nullptr, "ncclCommInitRankConfig", result);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  std::fprintf(stderr, "NCCL %d: %s\n", version, std::string(status.message()).c_str());
}

}  // namespace
}  // namespace rondo::testing
