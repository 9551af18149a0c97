// The command lines that `rondo up` runs; pure, so that tests can read them.
#pragma once

#include <string>
#include <vector>

namespace rondo::cli {

struct UpOptions {
  int workers = 1;
  std::string model;  // empty: attention jobs only
  std::string listen = "127.0.0.1:7070";
  std::string transport = "auto";  // or loopback (one process), or what --transport of rondo-worker takes
  std::string device;              // as --device of rondo-worker; empty: its default
  std::string journal;             // empty: a temporary folder
  bool once = false;
  int drain_s = 10;                           // the coordinator's grace
  std::vector<std::string> worker_arguments;  // passed on as they are
  std::vector<std::string> coordinator_arguments;
  std::string bin;  // folder of rondo-coordinator and rondo-worker
  std::string mpirun = "mpirun";
};

// Whether the group is processes under mpirun: every transport starts so but threads.
inline bool UnderMpirun(const UpOptions& options) { return options.transport != "loopback"; }

// Empty, or what --device may be.
std::string CheckDeviceName(const std::string& text);

// The coordinator, listening on `listen`.
std::vector<std::string> CoordinatorCommand(const UpOptions& options, const std::string& listen);

// One group that dials `coordinator`: mpirun over `workers` processes, or one process with that many loopback ranks.
// Ranks that only measure dial nobody: empty.
// `as_root`: mpirun refuses to run as root unless told that it may.
std::vector<std::string> GroupCommand(const UpOptions& options, const std::string& coordinator, bool as_root);

}  // namespace rondo::cli
