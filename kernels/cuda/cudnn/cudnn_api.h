// The functions of libcudnn that attention needs, found at run time, so that no program of Rondo's is linked against
// it; used inside this folder only.
#pragma once

#include <cudnn_graph.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rondo::cuda {

struct CudnnApi {
  decltype(&cudnnGetVersion) get_version = nullptr;
  decltype(&cudnnGetErrorString) get_error_string = nullptr;
  decltype(&cudnnGetLastErrorString) get_last_error_string = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;

  // The library is opened once for the process and stays. NOT_FOUND: no library where the dynamic linker looks, with
  // its words; FAILED_PRECONDITION: it lacks a function.
  static absl::StatusOr<const CudnnApi*> Get();

  // OK, or INTERNAL (UNIMPLEMENTED where cuDNN says "not supported") with `what` and cuDNN's own words.
  absl::Status Check(cudnnStatus_t status, const char* what) const;
};

}  // namespace rondo::cuda
