#include "worker/device/gpu_module.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rondo {
namespace {

OpenedModule Unusable(const std::string& error) { return {.error = error}; }

std::string LoaderError() {
  const char* const text = dlerror();
  return text == nullptr ? "the loader gives no reason" : text;
}

}  // namespace

std::vector<std::string> GpuModulePaths() {
  if (const char* const named = std::getenv("RONDO_CUDA_MODULE")) return {named};
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path folder = program.parent_path();
  return {folder / kGpuModuleFile, folder.parent_path() / "lib" / "rondo" / kGpuModuleFile};
}

OpenedModule OpenGpuModule(const std::vector<std::string>& paths) {
  std::string path;
  for (const std::string& candidate : paths) {
    std::error_code error;
    if (path.empty() && std::filesystem::exists(candidate, error)) path = candidate;
  }
  if (path.empty()) return {.error = absl::StrCat("there is no ", absl::StrJoin(paths, " or ")), .absent = true};
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    OpenedModule module = Unusable(LoaderError());
    // The loader names the file that it could not open first: "libcublasLt.so.13: cannot open shared object file: ...".
    module.cublas_missing = absl::StartsWith(module.error, "libcublasLt.so");
    return module;
  }
  const auto function = reinterpret_cast<rondo_cuda_module_v1_function>(dlsym(library, RONDO_CUDA_MODULE_SYMBOL));
  if (function == nullptr) return Unusable(absl::StrCat(path, " has no ", RONDO_CUDA_MODULE_SYMBOL));
  const rondo_cuda_module_v1* const table = function();
  if (table == nullptr || table->version != kRondoCudaModuleVersion || table->size < sizeof(rondo_cuda_module_v1)) {
    return Unusable(absl::StrCat(path, " is of version ", table == nullptr ? 0 : table->version, " and ",
                                 table == nullptr ? 0 : table->size, " bytes, needed: version ",
                                 kRondoCudaModuleVersion, " and ", sizeof(rondo_cuda_module_v1), " bytes"));
  }
  return {.table = table};
}

}  // namespace rondo
