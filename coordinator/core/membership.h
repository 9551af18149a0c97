// Which ranks form a group, when its epoch begins and when it is over. Pure like the scheduler: the engine tells it
// who said what and when, and carries out the answers.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/core/event.h"

namespace rondo::coordinator {

using ConnectionId = uint64_t;  // one stream of one rank

// What all ranks of a group must agree on.
struct Fingerprint {
  std::string version;
  std::string model_sha256;  // empty: no model
  std::string compute;
  std::string kv_type;
  std::string kernel_family;
  int64_t prefill_chunk = 0;
  uint64_t kv_bytes_per_token = 0;
  std::string libraries = {};  // whose versions the bits depend on, e.g. "cuBLASLt 13.1.0"; empty: none
};

struct RankHello {
  std::string launch_id;
  uint32_t rank = 0;
  uint32_t world_size = 0;
  Fingerprint fingerprint;
  std::string host;
  uint64_t pid = 0;
  std::string kernels;
  uint32_t threads = 0;
  std::string cpus;
  uint64_t kv_memory_bytes = 0;
  std::string transport;
  std::string data_address;  // of its attention data server; empty: none
};

struct RankVitals {
  uint64_t kv_used_bytes = 0;
  uint64_t resident_bytes = 0;
  uint64_t applied_number = 0;
  uint64_t progress = 0;
};

struct MembershipOptions {
  int64_t forming_timeout_us = 60000000;
  int64_t rank_timeout_us = 2500000;  // five heartbeats of 500 ms
};

// The answers to one call, to be carried out in this order.
struct MembershipActions {
  struct Refusal {
    ConnectionId connection;
    absl::Status why;
  };
  struct Departure {
    ConnectionId connection;
    std::string reason;
  };
  std::vector<Refusal> refuse;        // say Refused and end the stream
  std::vector<ConnectionId> welcome;  // members of `ready`, by rank
  std::vector<GroupInfo> ready;       // at most one
  std::vector<Departure> leave;       // say Leave and end the stream
  std::vector<GroupLostEvent> lost;
};

class Membership {
 public:
  enum class State : uint8_t { kForming, kReady, kLost };
  struct Member {
    ConnectionId connection = 0;
    RankHello hello;
    RankVitals vitals;
    TimeUs last_heard = 0;
  };
  struct Group {
    State state = State::kForming;
    uint64_t epoch = 0;
    TimeUs since = 0;
    bool has_model = false;
    std::map<uint32_t, Member> members;  // by rank
  };

  explicit Membership(MembershipOptions options) : options_(options) {}

  // A rank introduces itself. `model_known`: its model's header is at hand already.
  MembershipActions Join(ConnectionId connection, const RankHello& hello, bool model_known, TimeUs now);
  // The model header of this rank's group has been read, or could not be (then the group is refused).
  MembershipActions ModelRead(ConnectionId connection, const absl::Status& status, TimeUs now);
  MembershipActions Gone(ConnectionId connection, const std::string& reason, TimeUs now);
  void Heard(ConnectionId connection, const RankVitals* vitals, TimeUs now);
  MembershipActions Tick(TimeUs now);
  // The scheduler ended this epoch: its ranks were told to leave, what they still say is not heard.
  void Close(uint64_t epoch);

  // Ascending by launch; lost ones are kept for a while.
  const std::map<std::string, Group>& groups() const { return groups_; }
  bool any_ready() const;
  bool any_ready_without_model() const;
  // BitsKey of every ready group that has a model, newest epoch first.
  std::vector<std::string> ReadyKeys() const;
  // Connections of a ready group, by rank; empty otherwise.
  std::vector<ConnectionId> Connections(uint64_t epoch) const;
  // The ready group this connection belongs to; 0 if none.
  uint64_t EpochOf(ConnectionId connection) const;
  // Of a connection that has one.
  uint32_t RankOf(ConnectionId connection) const;

 private:
  Group* GroupOf(ConnectionId connection);
  void Dissolve(const std::string& launch, const std::string& reason, const absl::Status& refusal,
                MembershipActions* out);
  void MaybeReady(Group& group, TimeUs now, MembershipActions* out);
  void ForgetOld();

  const MembershipOptions options_;
  std::map<std::string, Group> groups_;            // by launch id
  std::map<ConnectionId, std::string> launch_of_;  // live connections only
  std::vector<std::string> over_;                  // launches that ended, oldest first
  uint64_t last_epoch_ = 0;
};

// Model, compute mode, KV type and kernel family: what decides a job's bits.
std::string BitsKey(const Fingerprint& fingerprint);

}  // namespace rondo::coordinator
