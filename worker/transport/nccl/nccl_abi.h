// The structs that cross into libnccl.so.2 by value or by pointer, as nccl.h 2.28 lays them out; tests compare them
// with that header where it is installed.
#pragma once

#include <climits>
#include <cstddef>

namespace rondo {

struct NcclAbiUniqueId {
  char internal[128];
};

// ncclConfig_t. Newer libraries read `size` and know by it which fields there are.
struct NcclAbiConfig {
  size_t size = sizeof(NcclAbiConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 22809;
  int blocking = INT_MIN;  // INT_MIN and null: the library's default
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;
  const char* comm_name = nullptr;
  int collnet_enable = INT_MIN;
  int cta_policy = INT_MIN;
  int shrink_share = INT_MIN;
  int nvls_ctas = INT_MIN;
  int channels_per_net_peer = INT_MIN;
  int nvlink_centric_sched = INT_MIN;
};

inline constexpr int kNcclAbiUint8 = 1;  // ncclUint8

}  // namespace rondo
