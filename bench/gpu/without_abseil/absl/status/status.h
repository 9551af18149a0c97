// As much of absl::Status as gpu_check's own sources use, with the same names and meanings, for CUDA machines that have no
// Abseil; on the include path only there (bench/gpu/CMakeLists.txt).
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace absl {

enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
};

class Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string_view message) : code_(code), message_(message) {}
  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  std::string_view message() const { return message_; }
  std::string ToString() const {
    return ok() ? "OK" : "status " + std::to_string(static_cast<int>(code_)) + ": " + message_;
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline std::ostream& operator<<(std::ostream& out, const Status& status) { return out << status.ToString(); }

inline Status OkStatus() { return {}; }
inline Status InvalidArgumentError(std::string_view m) { return {StatusCode::kInvalidArgument, m}; }
inline Status NotFoundError(std::string_view m) { return {StatusCode::kNotFound, m}; }
inline Status ResourceExhaustedError(std::string_view m) { return {StatusCode::kResourceExhausted, m}; }
inline Status FailedPreconditionError(std::string_view m) { return {StatusCode::kFailedPrecondition, m}; }
inline Status UnimplementedError(std::string_view m) { return {StatusCode::kUnimplemented, m}; }
inline Status InternalError(std::string_view m) { return {StatusCode::kInternal, m}; }
inline Status UnavailableError(std::string_view m) { return {StatusCode::kUnavailable, m}; }

}  // namespace absl
