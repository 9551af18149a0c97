#include "bench/gpu/lines.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace rondo::gpu_check {
namespace {

void Quote(std::string_view text, std::string* to) {
  *to += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      *to += '\\';
      *to += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      *to += ' ';
    } else {
      *to += c;
    }
  }
  *to += '"';
}

}  // namespace

std::string& Line::Key(std::string_view key) {
  if (!body_.empty()) body_ += ", ";
  Quote(key, &body_);
  body_ += ": ";
  return body_;
}

Line& Line::Text(std::string_view key, std::string_view value) {
  Quote(value, &Key(key));
  return *this;
}

Line& Line::Number(std::string_view key, double value) {
  char text[40] = "null";
  if (std::isfinite(value)) std::snprintf(text, sizeof text, "%.6g", value);
  Key(key) += text;
  return *this;
}

Line& Line::Count(std::string_view key, int64_t value) {
  Key(key) += std::to_string(value);
  return *this;
}

Line& Line::Bool(std::string_view key, bool value) {
  Key(key) += value ? "true" : "false";
  return *this;
}

void Line::Say() const {
  std::printf("{%s}\n", body_.c_str());
  std::fflush(stdout);
}

void Fail(const std::string& why) {
  Line("error").Text("why", why).Say();
  std::exit(2);
}

}  // namespace rondo::gpu_check
