// A model described by its sizes, for planning without its file; used by `rondo plan --shape`.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "model/cost/cost_model.h"

namespace rondo::cli {

// "layers=126,embedding=16384,feed_forward=53248,heads=128/8x128,vocab=128256,weight_bits=16": every name once, in any
// order. INVALID_ARGUMENT names what is missing, unknown or out of its range. kv_type is left as it is.
absl::StatusOr<CostShape> ParseShape(std::string_view text);

}  // namespace rondo::cli
