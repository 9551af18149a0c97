// The one JSON object that --json prints on stdout.
#pragma once

#include <cstdint>

#include "nlohmann/json.hpp"

namespace rondo::cli {

using Json = nlohmann::ordered_json;

// Writes the object and a newline. Text that is not UTF-8 (a document or a token may hold any bytes) is shown with
// U+FFFD where it is broken. False when stdout cannot be written.
bool PrintJson(const Json& json);

// One line; the replacement rule of PrintJson.
std::string JsonLine(const Json& json);

}  // namespace rondo::cli
