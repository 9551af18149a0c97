// What a command reads: files, or standard input as "-". Text is bytes and is passed on as it is.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace rondo::cli {

// The whole file. Errors name the path and the system's reason.
absl::StatusOr<std::string> ReadInput(const std::string& path);

}  // namespace rondo::cli
