#include "cli/json_out.h"

#include <cstdio>

namespace rondo::cli {

std::string JsonLine(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

bool PrintJson(const Json& json) {
  const std::string text = JsonLine(json) + "\n";
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

}  // namespace rondo::cli
