// Refusals of the coordinator in the words of the command line: it names fields of the request, people typed options.
// Used by the commands that send requests.
#pragma once

#include <string_view>

#include "absl/types/span.h"
#include "grpcpp/grpcpp.h"

namespace rondo::cli {

struct FieldOption {
  std::string_view field;
  std::string_view option;
};

// Of `generate` and `verify`, and of `attend`.
absl::Span<const FieldOption> RequestFields();
absl::Span<const FieldOption> AttendFields();

// The status with the field that its message begins with named as the option, where it is an INVALID_ARGUMENT about one
// of `fields`; else the status as it is.
grpc::Status WithOptionNames(const grpc::Status& status, absl::Span<const FieldOption> fields);

}  // namespace rondo::cli
