// As much of absl::StatusOr as gpu_check's own sources use; see status.h.
#pragma once

#include <optional>
#include <utility>

#include "absl/status/status.h"

namespace absl {

template <class T>
class StatusOr {
 public:
  StatusOr(Status status) : status_(std::move(status)) {}
  StatusOr(T value) : value_(std::move(value)) {}
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
