// How a job ended, for people and for programs: what `rondo generate` and `rondo jobs ID` print.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/json_out.h"
#include "rondo/v1/inference.pb.h"

namespace rondo::cli {

// The object of --json.
Json ResultJson(const v1::Finished& result, const std::string& text, const std::vector<int32_t>& tokens);

// A few lines of figures, without a newline at the end.
std::string ResultSummary(const v1::Finished& result);

}  // namespace rondo::cli
