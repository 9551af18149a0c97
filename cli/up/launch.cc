#include "cli/up/launch.h"

#include <cstdint>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rondo::cli {

std::string CheckDeviceName(const std::string& text) {
  uint32_t index = 0;
  if (text == "auto" || text == "cpu" || text == "cuda") return "";
  const std::string_view prefix = "cuda:";
  if (text.compare(0, prefix.size(), prefix) == 0 && absl::SimpleAtoi(text.substr(prefix.size()), &index)) return "";
  return "must be auto, cpu, cuda or cuda:INDEX, not " + text;
}

std::vector<std::string> CoordinatorCommand(const UpOptions& o, const std::string& listen) {
  std::vector<std::string> command = {absl::StrCat(o.bin, "/rondo-coordinator"),
                                      "--listen",
                                      listen,
                                      "--journal",
                                      o.journal,
                                      "--grace",
                                      absl::StrCat(o.drain_s)};
  command.insert(command.end(), o.coordinator_arguments.begin(), o.coordinator_arguments.end());
  return command;
}

std::vector<std::string> GroupCommand(const UpOptions& o, const std::string& coordinator, bool as_root) {
  std::vector<std::string> command;
  if (UnderMpirun(o)) {
    command = {o.mpirun, "-np", absl::StrCat(o.workers)};
    // More ranks than cores are welcome (an idle rank sleeps), and ranks share the cores: mpirun's defaults refuse the
    // one and pin each rank to a single core for the other.
    for (const char* word : {"--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"}) {
      command.push_back(word);
    }
    if (as_root) command.push_back("--allow-run-as-root");
  }
  command.push_back(absl::StrCat(o.bin, "/rondo-worker"));
  if (!coordinator.empty()) {
    command.push_back("--coordinator");
    command.push_back(coordinator);
  }
  command.push_back("--transport");
  command.push_back(o.transport);
  if (!o.model.empty()) {
    command.push_back("--model");
    command.push_back(o.model);
  }
  if (!o.device.empty()) {
    command.push_back("--device");
    command.push_back(o.device);
  }
  if (!UnderMpirun(o)) {
    command.push_back("--ranks");
    command.push_back(absl::StrCat(o.workers));
  }
  command.insert(command.end(), o.worker_arguments.begin(), o.worker_arguments.end());
  return command;
}

}  // namespace rondo::cli
