// Stands for kernels/cuda/cudnn where gpu_check was built without cuDNN's headers: every call says so.
#include "kernels/cuda/cudnn/sdpa.h"

namespace rondo::cuda {
namespace {

absl::Status Absent() { return absl::NotFoundError("cuDNN's headers were not there when gpu_check was built"); }

}  // namespace

struct CudnnSdpa::Impl {};
CudnnSdpa::CudnnSdpa(std::unique_ptr<Impl>) {}
CudnnSdpa::~CudnnSdpa() = default;
absl::StatusOr<std::unique_ptr<CudnnSdpa>> CudnnSdpa::Create(const CudnnSdpaShape&, CudnnSdpaForm) { return Absent(); }
size_t CudnnSdpa::workspace_bytes() const { return 0; }
CudnnSdpaForm CudnnSdpa::form() const { return CudnnSdpaForm::kAny; }
absl::Status CudnnSdpa::Run(const CudnnSdpaTensors&, void*) { return Absent(); }
absl::StatusOr<int64_t> CudnnVersion() { return Absent(); }

}  // namespace rondo::cuda
