#include "worker/run_rank.h"

#include <exception>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "worker/ring/calibrate.h"
#include "worker/rpc/attention_data.h"
#include "worker/session/attention_store.h"
#include "worker/session/command_queue.h"
#include "worker/session/step_loop.h"

namespace rondo {
namespace {

// The coordinator refuses a group that is not complete after a minute; this is a little more.
constexpr absl::Duration kJoinTimeout = absl::Seconds(75);
constexpr absl::Duration kLeaveTimeout = absl::Seconds(1);

absl::Status RunLoop(StepLoop& loop) {
  try {
    return loop.Run();
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("exception: ", e.what()));
  }
}

// Without a model: heads as many models have them. What a rank can do hardly depends on it.
AttentionShape CommonShape(const WorkerContext& context) {
  AttentionShape shape;
  shape.kv_type = context.kv_type;
  shape.leaf_level = context.kernels.attention->leaf_level();
  shape.q_heads = 32;
  shape.kv_heads = 8;
  shape.head_dim = 128;
  shape.scale = 0.0883883476f;
  return shape;
}

// Every rank is here, or about to be: the group starts as one.
absl::StatusOr<RingRates> Rates(const WorkerContext& context) {
  if (context.strategy != RingStrategy::kAuto || context.transport->world_size() == 1) return RingRates{};
  const AttentionShape shape = context.model == nullptr
                                   ? CommonShape(context)
                                   : ShapeOf(context.model->config, *context.kernels.attention, context.kv_type);
  absl::StatusOr<RingRates> rates = MeasureRates(*context.kernels.attention, shape, *context.transport, *context.pool);
  if (rates.ok() && context.transport->rank() == 0) {
    LogInfo("the slowest rank attends at ", rates->flops * 1e-9, " GFLOP/s and sends at ", rates->bytes_per_s * 1e-9,
            " GB/s");
  }
  return rates;
}

Departure RunInEpoch(const WorkerContext& context, const RankIdentity& identity) {
  CommandQueue commands;
  // The loop reports to the client, and the client's threads, which Join starts, call into the loop: so the loop is
  // made last, and goes last.
  std::optional<StepLoop> loop;
  GroupClient client(
      context, identity, commands, [&loop](const std::string& job) { loop->FlagCancelled(job); },
      [&loop] {
        return GroupClient::Vitals{loop->kv_used_bytes(), loop->applied_number(), loop->progress()};
      });
  loop.emplace(context, commands, &client);

  if (absl::Status joined = client.Join(absl::Now() + kJoinTimeout); !joined.ok()) return {joined, false};
  LogInfo("joined ", identity.coordinator, " as rank ", context.transport->rank(), " of ",
          context.transport->world_size());
  const absl::Status ended = RunLoop(*loop);
  Departure departure{ended, false};
  if (commands.closed()) departure = client.departure();
  if (!departure.orderly)
    context.transport->Abort(absl::UnavailableError(absl::StrCat("rank ", context.transport->rank(), " left")));
  client.Leave(absl::Now() + kLeaveTimeout);
  return departure;
}

}  // namespace

Departure RunRank(WorkerContext context, RankIdentity identity, const std::string& data_listen) {
  if (context.model != nullptr) {
    const AttentionShape shape = ShapeOf(context.model->config, *context.kernels.attention, context.kv_type);
    if (absl::Status supported = context.kernels.attention->Supports(shape); !supported.ok()) return {supported, false};
  }
  absl::StatusOr<RingRates> rates = Rates(context);
  if (!rates.ok()) return {rates.status(), false};
  context.rates = *rates;
  AttentionStore attention;
  absl::StatusOr<std::unique_ptr<AttentionDataServer>> data = AttentionDataServer::Start(data_listen, attention);
  if (!data.ok()) {
    context.transport->Abort(absl::UnavailableError(absl::StrCat("rank ", context.transport->rank(), " left")));
    return {data.status(), false};
  }
  context.attention = &attention;
  identity.data_address = (*data)->address();
  return RunInEpoch(context, identity);
}

}  // namespace rondo
