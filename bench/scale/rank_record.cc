#include "bench/scale/rank_record.h"

#include <cstring>
#include <utility>

#include "absl/time/clock.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

constexpr absl::Duration kPatience = absl::Minutes(2);

// Both sides call it, one of them with nothing to say.
absl::Status Exchange(Transport& transport, int peer, absl::Span<const std::byte> send, absl::Span<std::byte> recv) {
  const absl::StatusOr<Transport::Pending> pending = transport.SendRecv(peer, send, peer, recv);
  if (!pending.ok()) return pending.status();
  return transport.Wait(*pending, absl::Now() + kPatience).status();
}

template <typename T>
absl::Span<std::byte> Bytes(T* data, size_t count) {
  return {reinterpret_cast<std::byte*>(data), count * sizeof(T)};
}

}  // namespace

Json ToJson(const RankRecord& record) {
  Json steps = Json::array();
  for (const StepRecord& step : record.steps) {
    steps.push_back(Json{{"begin_us", absl::ToDoubleMicroseconds(step.begin)},
                         {"posted_us", absl::ToDoubleMicroseconds(step.posted)},
                         {"compute_us", absl::ToDoubleMicroseconds(step.compute)},
                         {"wait_us", absl::ToDoubleMicroseconds(step.exposed_wait)},
                         {"sent_bytes", step.sent_bytes},
                         {"everybody", step.everybody}});
  }
  return Json{{"rank", record.rank},
              {"host", record.host},
              {"seconds", absl::ToDoubleSeconds(record.elapsed)},
              {"cpu_seconds", record.cpu_seconds},
              {"base_bytes", record.base_bytes},
              {"peak_bytes", record.peak_bytes},
              {"sent_bytes", record.sent_bytes},
              {"skipped_steps", record.skipped_steps},
              {"steps", std::move(steps)}};
}

absl::StatusOr<std::vector<Json>> GatherJson(Transport& transport, const Json& own) {
  std::string text = own.dump();
  std::vector<Json> all;
  if (transport.rank() != 0) {
    uint64_t size = text.size();
    if (absl::Status s = Exchange(transport, 0, Bytes(&size, 1), {}); !s.ok()) return s;
    if (absl::Status s = Exchange(transport, 0, Bytes(text.data(), size), {}); !s.ok()) return s;
    return all;
  }
  all.push_back(own);
  for (int rank = 1; rank < transport.world_size(); ++rank) {
    uint64_t size = 0;
    if (absl::Status s = Exchange(transport, rank, {}, Bytes(&size, 1)); !s.ok()) return s;
    text.resize(size);
    if (absl::Status s = Exchange(transport, rank, {}, Bytes(text.data(), size)); !s.ok()) return s;
    all.push_back(Json::parse(text));
  }
  return all;
}

}  // namespace rondo
