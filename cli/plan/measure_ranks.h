// Runs `rondo-worker --measure` with as many ranks as asked for on this machine; used by `rondo plan`.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/up/launch.h"
#include "model/cost/cost_model.h"

namespace rondo::cli {

struct MeasuredRanks {
  RankRates rates;
  std::string kernels;
  std::string compute;
  std::string kv_type;
  int threads = 0;
};

// `options` as for `rondo up`: workers, model, transport, worker arguments. INTERNAL with what the launcher said last
// when no figures came; DEADLINE_EXCEEDED after `timeout`. Whatever was started has ended on return. `waiting` is
// called several times a second meanwhile, with the time that has passed.
absl::StatusOr<MeasuredRanks> MeasureRanks(UpOptions options, absl::Duration timeout,
                                           absl::FunctionRef<void(absl::Duration passed)> waiting);

// The line "measured {...}" of rank 0. INTERNAL when it is not that or a figure is missing or not above 0.
absl::StatusOr<MeasuredRanks> ParseMeasured(std::string_view line);

}  // namespace rondo::cli
