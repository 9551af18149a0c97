// Bridges std::string_view to Abseil as Debian builds it, where absl::string_view is a type of its own.
#pragma once

#include <string_view>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace rondo {

inline absl::string_view Sv(std::string_view text) { return absl::string_view(text.data(), text.size()); }
inline std::string_view StdSv(absl::string_view text) { return std::string_view(text.data(), text.size()); }

// For variadic wrappers round StrCat: string views are bridged, everything else passes.
template <typename T>
decltype(auto) StrCatPart(const T& part) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return Sv(part);
  } else {
    return (part);
  }
}

}  // namespace rondo
