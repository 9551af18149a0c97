// What `rondo bench scale` was asked for, and the command line of one cell; pure, so that tests can read it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rondo::cli {

struct ScaleOptions {
  std::vector<int64_t> workers = {1, 2, 4};
  std::vector<int64_t> tokens = {4096, 16384, 65536};
  int threads = 1;
  std::string heads = "8/2x64";
  std::string model;  // a prefill in the place of attention alone
  std::string strategy = "auto";
  std::string kv_type = "f32";
  std::string kernels;
  int repeat = 3;
  std::string transport = "mpi";  // or loopback
  std::string mpirun = "mpirun";
  std::string bin;                 // folder of scale_rank
  std::vector<std::string> hosts;  // empty: this machine
  std::string agent;               // what mpirun starts its daemons with, in the place of ssh
  std::string network;             // interface or CIDR of the hosts' network
};

// One host a line, "#" begins a comment, an optional " slots=N" counts it N times. INVALID_ARGUMENT naming the line.
absl::StatusOr<std::vector<std::string>> ParseHosts(std::string_view text);

std::vector<std::string> CellCommand(const ScaleOptions& options, int64_t workers, int64_t tokens);

}  // namespace rondo::cli
