// As much of absl::StrCat as gpu_check's own sources use; see absl/status/status.h.
#pragma once

#include <sstream>
#include <string>

namespace absl {

template <class... Parts>
std::string StrCat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

}  // namespace absl
