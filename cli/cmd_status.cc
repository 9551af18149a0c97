// rondo status: the groups, their ranks and memory, and the queue.
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/client_channel.h"
#include "cli/commands.h"
#include "cli/json_out.h"
#include "cli/show.h"

namespace rondo::cli {
namespace {

struct Options {
  std::string coordinator;
  bool json = false;
};

Json RankJson(const v1::RankStatus& rank) {
  return Json{{"rank", rank.rank()},
              {"host", rank.host()},
              {"pid", rank.pid()},
              {"kernels", rank.kernels()},
              {"threads", rank.threads()},
              {"cpus", rank.cpus()},
              {"kv_memory_bytes", rank.kv_memory_bytes()},
              {"kv_used_bytes", rank.kv_used_bytes()},
              {"resident_bytes", rank.resident_bytes()}};
}

Json GroupJson(const v1::GroupStatus& group) {
  Json ranks = Json::array();
  for (const v1::RankStatus& rank : group.ranks()) ranks.push_back(RankJson(rank));
  return Json{{"epoch", group.epoch()},           {"state", group.state()},
              {"model", group.model()},           {"model_sha256", group.model_sha256()},
              {"world_size", group.world_size()}, {"compute", group.compute()},
              {"kv_type", group.kv_type()},       {"transport", group.transport()},
              {"context", group.context()},       {"ranks", ranks}};
}

Json ClusterJson(const v1::Cluster& cluster) {
  Json groups = Json::array();
  for (const v1::GroupStatus& group : cluster.groups()) groups.push_back(GroupJson(group));
  return Json{{"version", cluster.version()},         {"draining", cluster.draining()},
              {"queued_jobs", cluster.queued_jobs()}, {"running_jobs", cluster.running_jobs()},
              {"queue_limit", cluster.queue_limit()}, {"groups", groups}};
}

void PrintGroup(const v1::GroupStatus& group) {
  std::string line =
      absl::StrCat("group epoch ", group.epoch(), ": ", group.state(), ", ", ShowWorkers(group.world_size()), " over ",
                   group.transport(), ", ", ShowModel(group.model()));
  if (!group.model().empty()) {
    absl::StrAppend(&line, " (SHA-256 ", group.model_sha256().substr(0, 12), "), compute ", group.compute(), ", KV ",
                    group.kv_type(), ", context ", ShowCount(group.context()));
  }
  std::printf("\n%s\n", line.c_str());
  std::vector<std::vector<std::string>> rows = {
      {"RANK", "HOST", "PID", "KERNELS", "THREADS", "CPUS", "KV USED", "KV MEMORY", "RESIDENT"}};
  for (const v1::RankStatus& r : group.ranks()) {
    rows.push_back({absl::StrCat(r.rank()), r.host(), absl::StrCat(r.pid()), r.kernels(), absl::StrCat(r.threads()),
                    r.cpus(), ShowBytes(r.kv_used_bytes()), ShowBytes(r.kv_memory_bytes()),
                    ShowBytes(r.resident_bytes())});
  }
  std::fputs(ShowTable(rows).c_str(), stdout);
}

int RunStatus(const Options& o) {
  const std::unique_ptr<Client> client = Client::Connect(o.coordinator);
  if (client == nullptr) return kNoCoordinator;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1::Cluster cluster;
  const grpc::Status status = client->stub().GetCluster(&context, {}, &cluster);
  if (!status.ok()) return client->Report(status);
  if (o.json) return PrintJson(ClusterJson(cluster)) ? kOk : kFailure;
  std::printf("coordinator %s, version %s%s: %u running, %u queued (at most %u)\n", client->address().c_str(),
              cluster.version().c_str(), cluster.draining() ? ", draining" : "", cluster.running_jobs(),
              cluster.queued_jobs(), cluster.queue_limit());
  for (const v1::GroupStatus& group : cluster.groups()) PrintGroup(group);
  if (cluster.groups().empty()) {
    std::printf("\nno workers; start some with: mpirun -np 4 rondo-worker --coordinator %s --model M.gguf\n",
                client->address().c_str());
  }
  return kOk;
}

}  // namespace

void AddStatusCommand(CLI::App& app, RunCommand* run) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("status",
                                         "Show groups, ranks, kernels, memory and queue\n\n"
                                         "Examples:\n"
                                         "  rondo status\n"
                                         "  rondo status --json | python3 -m json.tool");
  AddCoordinatorOption(*command, &o->coordinator);
  command->add_flag("--json", o->json, "Print one JSON object");
  command->callback([o, run] { *run = [o] { return RunStatus(*o); }; });
}

}  // namespace rondo::cli
