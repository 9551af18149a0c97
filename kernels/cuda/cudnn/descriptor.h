// A descriptor of cuDNN's backend API that destroys itself, and the error that stops the building of a graph; used
// inside this folder only.
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/cudnn/cudnn_api.h"

namespace rondo::cuda {

// Keeps the first failure of a series of calls; after it the descriptors of the series do nothing. A graph of thirty
// descriptors reads as what it is, and the caller asks once.
class CudnnBuild {
 public:
  explicit CudnnBuild(const CudnnApi& api) : api_(api) {}
  const CudnnApi& api() const { return api_; }
  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  void Check(cudnnStatus_t status, const char* what) {
    if (status_.ok()) status_ = api_.Check(status, what);
  }

 private:
  const CudnnApi& api_;
  absl::Status status_;
};

// Lives no longer than the CudnnBuild's api; `what` is a literal that names it in errors.
class Descriptor {
 public:
  Descriptor(CudnnBuild& build, cudnnBackendDescriptorType_t type, const char* what);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  Descriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void* values);
  // Of one value.
  template <class T>
  Descriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    return Set(name, type, 1, &value);
  }
  Descriptor& Set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values);
  Descriptor& Set(cudnnBackendAttributeName_t name, const Descriptor& value);
  // The last word: nothing may be set after it.
  Descriptor& Finalize();

 private:
  CudnnBuild* build_;
  const CudnnApi* api_;
  const char* what_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace rondo::cuda
