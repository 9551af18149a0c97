// What each rank of a GPU group says of itself before the group starts, and the refusals that follow: an error here
// names both ranks, where NCCL would hang or say "unhandled system error". Used by the makers of GPU transports.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "rondo/transport.h"
#include "worker/transport/device/cuda_api.h"

namespace rondo {

struct RankFacts {
  std::string transport;  // nccl, cuda-ipc, mpi
  uint64_t epoch = 0;     // which life of the group
  std::string host;
  std::string boot_id;  // of the kernel: the same for all containers of a machine
  int64_t process = 0;  // drawn once a process
  int device = 0;       // CUDA's index in its process
  std::string device_name;
  std::array<uint8_t, 16> uuid = {};
  int capability = 0;      // 90 for 9.0
  int driver = 0;          // newest CUDA that the driver runs: 13000
  int nccl = 0;            // 22809; 0: not used
  uint64_t shm_bytes = 0;  // free in /dev/shm
  std::string interface;   // NCCL's first contact: NCCL_SOCKET_IFNAME, or the first that is up
};

// Of this process; `device` is in use.
absl::StatusOr<RankFacts> GatherFacts(CudaApi& cuda, int device);

// Every rank gets all ranks' facts, by rank.
absl::StatusOr<std::vector<RankFacts>> ExchangeFacts(Transport& control, const RankFacts& own, absl::Time deadline);

// FAILED_PRECONDITION for the first pair of ranks that cannot be of one group: different transports, epochs or NCCL
// versions; one GPU twice (nccl); two machines (cuda-ipc). Pure, so every rank comes to the same answer.
absl::Status CheckFacts(const std::vector<RankFacts>& ranks);

// "rank 0: NVIDIA H200 (GPU 0, 9.0, 00000000-0000-0000-0000-000000000000) on node1, driver CUDA 13.0, NCCL 2.28.9,
// interface eth0, /dev/shm 32768 MiB free"
std::string Describe(const RankFacts& facts, int rank);

// Advice that is no refusal; empty: none. /dev/shm below 1 GiB: what NCCL's documentation tells container users to
// give.
std::string ShmAdvice(const RankFacts& facts, int rank);

// All ranks call it, each with how it fared. OK when all did; else every rank gets the first failing rank's message.
absl::Status AgreeAllWell(Transport& control, const absl::Status& own, absl::Time deadline);

}  // namespace rondo
