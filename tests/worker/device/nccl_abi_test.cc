// Our copies of what crosses into NCCL, against nccl.h.
#include "worker/transport/nccl/nccl_abi.h"

#include <gtest/gtest.h>
#include <nccl.h>

#include <cstring>

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

}  // namespace
}  // namespace rondo::testing
