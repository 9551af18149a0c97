// What an option that takes one number admits, refused in one short line; for every command.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace rondo::cli {

// `range` follows "is not". NaN passes no test that compares; a number that Number cannot hold passes none.
template <typename Number>
CLI::Validator Admits(std::function<bool(Number)> good, const std::string& range) {
  return CLI::Validator(
      [good = std::move(good), range](std::string& text) -> std::string {
        Number value{};
        bool parsed = false;
        if constexpr (std::is_integral_v<Number>) {
          parsed = absl::SimpleAtoi(text, &value);
        } else if constexpr (std::is_same_v<Number, double>) {
          parsed = absl::SimpleAtod(text, &value);
        } else {
          parsed = absl::SimpleAtof(text, &value);
        }
        if (parsed && good(value)) return {};
        return absl::StrCat(text, " is not ", range);
      },
      "");
}

// A number from `least` to `most`.
template <typename Number>
CLI::Validator Between(Number least, Number most) {
  return Admits<Number>(
      [least, most](Number n) { return n >= least && n <= most; },
      absl::StrCat(std::is_integral_v<Number> ? "a whole number" : "a number", " from ", least, " to ", most));
}

}  // namespace rondo::cli
