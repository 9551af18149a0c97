#include "cli/bench/scale_command.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "worker/transport/mpi_launch.h"

namespace rondo::cli {

absl::StatusOr<std::vector<std::string>> ParseHosts(std::string_view text) {
  std::vector<std::string> hosts;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(Sv(text), '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    int slots = 1;
    absl::string_view count = words.size() > 1 ? words[1] : "slots=1";
    if (words.size() > 2 || !absl::ConsumePrefix(&count, "slots=") || !absl::SimpleAtoi(count, &slots) || slots < 1 ||
        slots > 4096) {
      return absl::InvalidArgumentError(
          absl::StrCat("hosts, line ", number, ": '", line, "' is not a host name and perhaps slots=N (1 to 4096)"));
    }
    hosts.insert(hosts.end(), slots, std::string(words[0]));
  }
  if (hosts.empty()) return absl::InvalidArgumentError("hosts: the file names no host");
  return hosts;
}

namespace {

void AddHosts(const ScaleOptions& o, int64_t workers, std::vector<std::string>* command) {
  if (o.hosts.empty()) return;
  // Ranks go round the hosts, so that two workers on two hosts are on two hosts.
  std::vector<std::string> slots;
  for (int64_t rank = 0; rank < workers; ++rank) slots.push_back(o.hosts[rank % o.hosts.size()]);
  command->insert(command->end(), {"--host", absl::StrJoin(slots, ","), "--map-by", "node"});
  if (!o.agent.empty()) command->insert(command->end(), {"--mca", "plm_rsh_agent", o.agent});
  command->insert(command->end(), {"--mca", "btl", "tcp,self"});
  if (o.network.empty()) return;
  for (const char* part : {"btl_tcp_if_include", "oob_tcp_if_include"}) {
    command->insert(command->end(), {"--mca", part, o.network});
  }
}

}  // namespace

std::vector<std::string> CellCommand(const ScaleOptions& o, int64_t workers, int64_t tokens) {
  std::vector<std::string> command;
  if (o.transport == "mpi") {
    command = {o.mpirun, "-np", absl::StrCat(workers)};
    for (const std::string& word : RecommendedMpirunArgs()) command.push_back(word);
    AddHosts(o, workers, &command);
  }
  const std::vector<std::string> words = {absl::StrCat(o.bin, "/scale_rank"),
                                          "--tokens",
                                          absl::StrCat(tokens),
                                          "--threads",
                                          absl::StrCat(o.threads),
                                          "--kv-type",
                                          o.kv_type};
  command.insert(command.end(), words.begin(), words.end());
  if (o.transport == "loopback") command.insert(command.end(), {"--ranks", absl::StrCat(workers)});
  if (o.model.empty()) {
    command.insert(command.end(), {"--heads", o.heads, "--strategy", o.strategy});
  } else {
    command.insert(command.end(), {"--model", o.model});
  }
  if (!o.kernels.empty()) command.insert(command.end(), {"--kernels", o.kernels});
  return command;
}

}  // namespace rondo::cli
