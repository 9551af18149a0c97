#include "kernels/cuda/cudnn/descriptor.h"

#include <utility>

namespace rondo::cuda {

Descriptor::Descriptor(CudnnBuild& build, cudnnBackendDescriptorType_t type, const char* what)
    : build_(&build), api_(&build.api()), what_(what) {
  if (build.ok()) build.Check(api_->create_descriptor(type, &descriptor_), what);
}

Descriptor::~Descriptor() {
  // A failure here has nobody left to tell, and leaks a few bytes at most.
  if (descriptor_ != nullptr) (void)api_->destroy_descriptor(descriptor_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : build_(other.build_),
      api_(other.api_),
      what_(other.what_),
      descriptor_(std::exchange(other.descriptor_, nullptr)) {}

Descriptor& Descriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                            const void* values) {
  if (build_->ok()) build_->Check(api_->set_attribute(descriptor_, name, type, count, values), what_);
  return *this;
}

Descriptor& Descriptor::Set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
  return Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

Descriptor& Descriptor::Set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  const cudnnBackendDescriptor_t descriptor = value.get();
  return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, descriptor);
}

Descriptor& Descriptor::Finalize() {
  if (build_->ok()) build_->Check(api_->finalize(descriptor_), what_);
  return *this;
}

}  // namespace rondo::cuda
