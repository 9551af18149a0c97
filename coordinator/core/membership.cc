#include "coordinator/core/membership.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rondo::coordinator {
namespace {

constexpr uint32_t kMaxWorld = 4096;
constexpr size_t kRememberedLaunches = 64;  // over ones: shown as lost, and refused when a straggler knocks

absl::Status CheckHello(const RankHello& h) {
  if (h.launch_id.empty() || h.launch_id.size() > 256) {
    return absl::InvalidArgumentError(
        absl::StrCat("launch_id: ", h.launch_id.size(), " bytes where 1 to 256 are allowed"));
  }
  if (h.world_size < 1 || h.world_size > kMaxWorld) {
    return absl::InvalidArgumentError(absl::StrCat("world_size: ", h.world_size, " is not in 1..", kMaxWorld));
  }
  if (h.rank >= h.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("rank: ", h.rank, " is not in 0..", h.world_size - 1));
  }
  if (!h.fingerprint.model_sha256.empty() && h.fingerprint.kv_bytes_per_token == 0) {
    return absl::InvalidArgumentError("fingerprint.kv_block_bytes_per_token is 0");
  }
  return absl::OkStatus();
}

// Names both ranks and both values of the first difference.
absl::Status CheckAgree(const RankHello& a, const RankHello& b) {
  const auto differ = [&](const char* field, const auto& of_a, const auto& of_b) {
    return absl::FailedPreconditionError(absl::StrCat(field, " differs: rank ", a.rank, " (", a.host, ") has ", of_a,
                                                      ", rank ", b.rank, " (", b.host, ") has ", of_b));
  };
  const Fingerprint& fa = a.fingerprint;
  const Fingerprint& fb = b.fingerprint;
  if (a.world_size != b.world_size) return differ("world size", a.world_size, b.world_size);
  if (fa.version != fb.version) return differ("version", fa.version, fb.version);
  const auto shown = [](const std::string& sha256) { return sha256.empty() ? "none" : sha256; };
  if (fa.model_sha256 != fb.model_sha256) {
    return differ("model SHA-256", shown(fa.model_sha256), shown(fb.model_sha256));
  }
  if (fa.compute != fb.compute) return differ("compute mode", fa.compute, fb.compute);
  if (fa.kv_type != fb.kv_type) return differ("KV type", fa.kv_type, fb.kv_type);
  if (fa.kernel_family != fb.kernel_family) return differ("kernel family", fa.kernel_family, fb.kernel_family);
  if (fa.libraries != fb.libraries) return differ("library", fa.libraries, fb.libraries);
  if (fa.prefill_chunk != fb.prefill_chunk) return differ("prefill chunk", fa.prefill_chunk, fb.prefill_chunk);
  if (fa.kv_bytes_per_token != fb.kv_bytes_per_token) {
    return differ("KV bytes per token", fa.kv_bytes_per_token, fb.kv_bytes_per_token);
  }
  return absl::OkStatus();
}

GroupInfo Describe(const Membership::Group& group) {
  GroupInfo info;
  info.epoch = group.epoch;
  const RankHello& first = group.members.begin()->second.hello;
  info.bits_key = BitsKey(first.fingerprint);
  info.kv_bytes_per_token = first.fingerprint.kv_bytes_per_token;
  info.leaf_level = LeafLevelOf(first.fingerprint.kernel_family);
  info.prefill_chunk = first.fingerprint.prefill_chunk;
  info.compute = first.fingerprint.compute;
  info.kv_type = first.fingerprint.kv_type;
  std::vector<std::string> kernels;
  for (const auto& [rank, member] : group.members) {
    info.kv_memory.push_back(member.hello.kv_memory_bytes);
    info.data_addresses.push_back(member.hello.data_address);
    if (std::find(kernels.begin(), kernels.end(), member.hello.kernels) != kernels.end()) continue;
    kernels.push_back(member.hello.kernels);
    absl::StrAppend(&info.kernels, info.kernels.empty() ? "" : "+", member.hello.kernels);
  }
  return info;
}

}  // namespace

std::string BitsKey(const Fingerprint& f) {
  return absl::StrCat(f.model_sha256, "/", f.compute, "/", f.kv_type, "/", f.kernel_family,
                      f.libraries.empty() ? "" : "/", f.libraries);
}

MembershipActions Membership::Join(ConnectionId connection, const RankHello& hello, bool model_known, TimeUs now) {
  MembershipActions out;
  const auto refuse = [&](absl::Status why) {
    out.refuse.push_back({connection, std::move(why)});
    return std::move(out);
  };
  if (absl::Status status = CheckHello(hello); !status.ok()) return refuse(std::move(status));
  Group& group = groups_[hello.launch_id];
  if (group.state == State::kLost) {
    return refuse(absl::FailedPreconditionError(absl::StrCat(
        "launch ", hello.launch_id, " is over: start the group again (epoch ", group.epoch, " was lost)")));
  }
  if (group.members.empty()) group.since = now;
  if (const auto same = group.members.find(hello.rank); same != group.members.end()) {
    return refuse(
        absl::AlreadyExistsError(absl::StrCat("rank ", hello.rank, " of launch ", hello.launch_id, " is taken by pid ",
                                              same->second.hello.pid, " on ", same->second.hello.host)));
  }
  if (!group.members.empty()) {
    if (absl::Status status = CheckAgree(group.members.begin()->second.hello, hello); !status.ok()) {
      if (group.state == State::kReady) return refuse(std::move(status));
      // One misfit means the whole launch is wrong: all ranks hear the same sentence.
      launch_of_[connection] = hello.launch_id;
      group.members[hello.rank].connection = connection;
      Dissolve(hello.launch_id, std::string(status.message()), status, &out);
      return out;
    }
  }
  Member& member = group.members[hello.rank];
  member.connection = connection;
  member.hello = hello;
  member.last_heard = now;
  launch_of_[connection] = hello.launch_id;
  group.has_model |= model_known || hello.fingerprint.model_sha256.empty();
  MaybeReady(group, now, &out);
  return out;
}

MembershipActions Membership::ModelRead(ConnectionId connection, const absl::Status& status, TimeUs now) {
  MembershipActions out;
  Group* group = GroupOf(connection);
  if (group == nullptr || group->state != State::kForming) return out;
  if (!status.ok()) {
    Dissolve(launch_of_.at(connection), std::string(status.message()), status, &out);
    return out;
  }
  group->has_model = true;
  MaybeReady(*group, now, &out);
  return out;
}

void Membership::MaybeReady(Group& group, TimeUs now, MembershipActions* out) {
  const uint32_t world = group.members.begin()->second.hello.world_size;
  if (group.state != State::kForming || group.members.size() < world || !group.has_model) return;
  // Time-seeded, so that epochs go up over restarts of the coordinator too.
  last_epoch_ = std::max(last_epoch_ + 1, static_cast<uint64_t>(now / 1000));
  group.epoch = last_epoch_;
  group.state = State::kReady;
  group.since = now;
  for (auto& [rank, member] : group.members) {
    member.last_heard = now;
    out->welcome.push_back(member.connection);
  }
  out->ready.push_back(Describe(group));
}

MembershipActions Membership::Gone(ConnectionId connection, const std::string& reason, TimeUs) {
  MembershipActions out;
  Group* group = GroupOf(connection);
  if (group == nullptr) return out;
  const std::string launch = launch_of_.at(connection);
  std::string what;
  for (const auto& [rank, member] : group->members) {
    if (member.connection != connection) continue;
    what = absl::StrCat("rank ", rank, " (pid ", member.hello.pid, " on ", member.hello.host, ") ", reason);
  }
  Dissolve(launch, what, absl::UnavailableError(absl::StrCat(what, " before the group was complete")), &out);
  return out;
}

void Membership::Heard(ConnectionId connection, const RankVitals* vitals, TimeUs now) {
  Group* group = GroupOf(connection);
  if (group == nullptr) return;
  for (auto& [rank, member] : group->members) {
    if (member.connection != connection) continue;
    member.last_heard = now;
    if (vitals != nullptr) member.vitals = *vitals;
  }
}

MembershipActions Membership::Tick(TimeUs now) {
  MembershipActions out;
  std::vector<std::string> launches;
  for (const auto& [launch, group] : groups_) launches.push_back(launch);
  for (const std::string& launch : launches) {
    Group& group = groups_.at(launch);
    if (group.state == State::kForming && now - group.since >= options_.forming_timeout_us) {
      const uint32_t world = group.members.begin()->second.hello.world_size;
      const std::string what = group.members.size() < world
                                   ? absl::StrCat(group.members.size(), " of ", world, " ranks joined within ")
                                   : absl::StrCat("rank 0 sent no model header within ");
      const absl::Status status =
          absl::DeadlineExceededError(absl::StrFormat("%s%.1f s", what, options_.forming_timeout_us / 1e6));
      Dissolve(launch, std::string(status.message()), status, &out);
    } else if (group.state == State::kReady) {
      for (const auto& [rank, member] : group.members) {
        if (now - member.last_heard < options_.rank_timeout_us) continue;
        Dissolve(launch,
                 absl::StrFormat("rank %d (pid %d on %s) was silent for %.1f s", rank, member.hello.pid,
                                 member.hello.host, (now - member.last_heard) / 1e6),
                 absl::OkStatus(), &out);
        break;
      }
    }
  }
  return out;
}

void Membership::Close(uint64_t epoch) {
  for (auto& [launch, group] : groups_) {
    if (group.state != State::kReady || group.epoch != epoch) continue;
    MembershipActions unheard;
    Dissolve(launch, "", absl::OkStatus(), &unheard);
    return;
  }
}

// A forming group is refused, a ready one is lost; either way the launch is over and its connections are forgotten.
void Membership::Dissolve(const std::string& launch, const std::string& reason, const absl::Status& refusal,
                          MembershipActions* out) {
  Group& group = groups_.at(launch);
  for (const auto& [rank, member] : group.members) {
    launch_of_.erase(member.connection);
    if (group.state == State::kForming) {
      out->refuse.push_back({member.connection, refusal});
    } else {
      out->leave.push_back({member.connection, reason});
    }
  }
  if (group.state == State::kReady) out->lost.push_back({group.epoch, reason});
  group.state = State::kLost;
  over_.push_back(launch);
  ForgetOld();
}

void Membership::ForgetOld() {
  while (over_.size() > kRememberedLaunches) {
    groups_.erase(over_.front());
    over_.erase(over_.begin());
  }
}

bool Membership::any_ready() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const auto& entry) { return entry.second.state == State::kReady; });
}

bool Membership::any_ready_without_model() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& entry) {
    const Group& group = entry.second;
    return group.state == State::kReady && group.members.begin()->second.hello.fingerprint.model_sha256.empty();
  });
}

std::vector<std::string> Membership::ReadyKeys() const {
  std::map<uint64_t, std::string, std::greater<>> by_epoch;
  for (const auto& [launch, group] : groups_) {
    if (group.state != State::kReady || group.members.empty()) continue;
    const Fingerprint& fingerprint = group.members.begin()->second.hello.fingerprint;
    if (!fingerprint.model_sha256.empty()) by_epoch[group.epoch] = BitsKey(fingerprint);
  }
  std::vector<std::string> keys;
  for (auto& [epoch, key] : by_epoch) keys.push_back(std::move(key));
  return keys;
}

std::vector<ConnectionId> Membership::Connections(uint64_t epoch) const {
  std::vector<ConnectionId> connections;
  for (const auto& [launch, group] : groups_) {
    if (group.state != State::kReady || group.epoch != epoch) continue;
    for (const auto& [rank, member] : group.members) connections.push_back(member.connection);
  }
  return connections;
}

uint64_t Membership::EpochOf(ConnectionId connection) const {
  const auto it = launch_of_.find(connection);
  if (it == launch_of_.end()) return 0;
  const Group& group = groups_.at(it->second);
  return group.state == State::kReady ? group.epoch : 0;
}

uint32_t Membership::RankOf(ConnectionId connection) const {
  for (const auto& [rank, member] : groups_.at(launch_of_.at(connection)).members) {
    if (member.connection == connection) return rank;
  }
  return 0;
}

Membership::Group* Membership::GroupOf(ConnectionId connection) {
  const auto it = launch_of_.find(connection);
  return it == launch_of_.end() ? nullptr : &groups_.at(it->second);
}

}  // namespace rondo::coordinator
