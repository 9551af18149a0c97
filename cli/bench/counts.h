// Lists of numbers as people write them on the command line of `rondo bench`: "1,2,4", "4k,16k,64k".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rondo::cli {

// Numbers from `least` to `most`, separated by commas; k is 1,024 and M is 1,048,576. Ascending, each once.
// INVALID_ARGUMENT naming the option, the piece and the limits.
absl::StatusOr<std::vector<int64_t>> ParseCounts(std::string_view option, std::string_view text, int64_t least,
                                                 int64_t most);

// The shortest way to write it so: 4k, 1M, 1000.
std::string ShowTokens(int64_t tokens);

}  // namespace rondo::cli
