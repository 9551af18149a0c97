// As much of absl::StatusOr as gpu_check's own sources use; see status.h.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"

namespace absl {

template <class T>
class StatusOr {
 public:
  StatusOr(Status status) : status_(std::move(status)) {}
  StatusOr(T value) : value_(std::move(value)) {}
  template <class U, std::enable_if_t<std::is_convertible_v<U, T> && !std::is_convertible_v<U, Status> &&
                                          !std::is_same_v<std::decay_t<U>, StatusOr>,
                                      int> = 0>
  StatusOr(U&& value) : value_(std::forward<U>(value)) {}
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  const T& operator*() const& { return *value_; }
  T& operator*() & { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  const T* operator->() const { return &*value_; }
  T* operator->() { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace absl
