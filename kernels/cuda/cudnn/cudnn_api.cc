#include "kernels/cuda/cudnn/cudnn_api.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace rondo::cuda {
namespace {

constexpr char kLibrary[] = "libcudnn.so.9";

absl::StatusOr<CudnnApi> Open() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::NotFoundError(absl::StrCat("cuDNN: ", dlerror()));
  CudnnApi api;
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  find(api.get_version, "cudnnGetVersion");
  find(api.get_error_string, "cudnnGetErrorString");
  find(api.get_last_error_string, "cudnnGetLastErrorString");
  find(api.create, "cudnnCreate");
  find(api.destroy, "cudnnDestroy");
  find(api.set_stream, "cudnnSetStream");
  find(api.create_descriptor, "cudnnBackendCreateDescriptor");
  find(api.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  find(api.set_attribute, "cudnnBackendSetAttribute");
  find(api.get_attribute, "cudnnBackendGetAttribute");
  find(api.finalize, "cudnnBackendFinalize");
  find(api.execute, "cudnnBackendExecute");
  if (missing != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("cuDNN: ", kLibrary, " has no function ", missing));
  }
  return api;
}

}  // namespace

absl::StatusOr<const CudnnApi*> CudnnApi::Get() {
  static const absl::StatusOr<CudnnApi>* const api = new absl::StatusOr<CudnnApi>(Open());
  if (!api->ok()) return api->status();
  return &**api;
}

absl::Status CudnnApi::Check(cudnnStatus_t status, const char* what) const {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  char last[512] = "";
  get_last_error_string(last, sizeof last);
  const std::string message = absl::StrCat("cuDNN: ", what, ": ", get_error_string(status), ": ", last);
  // Codes 3000 to 3999 are the kinds of "not supported".
  return status / 1000 == 3 ? absl::UnimplementedError(message) : absl::InternalError(message);
}

}  // namespace rondo::cuda
