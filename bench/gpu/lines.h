// What gpu_check's program has to say, one JSON object a line on stdout; bench/gpu_check reads it, makes the tables and
// judges. Keys and strings are our own words and device names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo::gpu_check {

// Line("row").Text("kernel", "sm80").Number("tflops", 300).Say();
//
// Kinds: "fact" (about the machine), "check" (with "pass"), "row" (of the section's table), "absent" (with "why": the
// section, or a part of it, does not apply here), "error" (with "why").
class Line {
 public:
  explicit Line(std::string_view kind) { Text("kind", kind); }
  Line& Text(std::string_view key, std::string_view value);
  Line& Number(std::string_view key, double value);  // null where it is not finite
  Line& Count(std::string_view key, int64_t value);
  Line& Bool(std::string_view key, bool value);
  const std::string& body() const { return body_; }
  void Say() const;  // flushes: the next line may crash

 private:
  std::string& Key(std::string_view key);
  std::string body_;
};

// Says "error" and ends the process with 2. Every section is a process of its own, so that a broken CUDA context dies
// with it.
[[noreturn]] void Fail(const std::string& why);

}  // namespace rondo::gpu_check
