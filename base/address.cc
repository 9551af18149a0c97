#include "base/address.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rondo {

std::string CheckAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return absl::StrCat("\"", address, "\" is not HOST:PORT");
  const std::string host = address.substr(0, colon), port = address.substr(colon + 1);
  if (host.find(':') != std::string::npos && (host.front() != '[' || host.back() != ']')) {
    return absl::StrCat("\"", address, "\": an IPv6 host stands in brackets, as in [::1]:7070");
  }
  uint32_t number = 0;
  if (!absl::SimpleAtoi(port, &number) || number > 65535) {
    return absl::StrCat("\"", address, "\": port ", port, " is not in 0..65535");
  }
  return {};
}

}  // namespace rondo
