// The flags that describe a request, shared by `generate` and `verify`, and how they become a GenerateRequest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rondo/v1/inference.grpc.pb.h"

namespace rondo::cli {

// Flags as given; empty optionals were not.
struct RequestOptions {
  std::optional<std::string> document, question, system, prompt, prompt_file, prompt_ids;
  uint32_t max_tokens = 256;
  float temperature = 0;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  uint64_t seed = 0;
  std::vector<std::string> stop;
  uint32_t ring_size = 0;
  bool beyond_context = false;
  std::optional<std::string> deadline;
};

void AddRequestOptions(CLI::App& command, RequestOptions* options);

// A request whose texts have been read from their files and not yet been uploaded. INVALID_ARGUMENT (usage) when
// no prompt or two kinds of prompt are named, or both would read standard input.
struct PreparedRequest {
  v1::GenerateRequest request;
  absl::Time deadline = absl::InfiniteFuture();  // counted from now; covers uploads and the queue
};
absl::StatusOr<PreparedRequest> PrepareRequest(const RequestOptions& options);

// Moves every text above 64 KiB out of the request and into an upload, in chunks of 256 KiB. The uploads may be used by
// several calls.
grpc::Status UploadLargeTexts(v1::Inference::Stub& stub, absl::Time deadline, v1::GenerateRequest* request);

}  // namespace rondo::cli
