// gpu_check_ranks: the law over several ranks as processes that share this machine's card over CUDA IPC; JSON lines as
// lines.h has them. Exit code 0: ran to its end, 2: failed to run. Run by bench/gpu_check.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "absl/time/clock.h"
#include "bench/gpu/lines.h"
#include "bench/gpu/ranks/law_over_ranks.h"
#include "kernels/cuda/backend/cuda_attention.h"
#include "worker/device/gpu_module.h"
#include "worker/device/module_gpu.h"
#include "worker/transport/cuda_ipc/cuda_ipc_transport.h"

namespace rondo::gpu_check {
namespace {

constexpr absl::Duration kStart = absl::Minutes(1);

class GpuPlace : public RankPlace {
 public:
  static absl::StatusOr<std::unique_ptr<RankPlace>> Make(const rondo_cuda_module_v1* table, Transport& control,
                                                         int device) {
    auto place = std::make_unique<GpuPlace>();
    place->cuda_ = MakeModuleCuda(table);
    absl::StatusOr<std::unique_ptr<ModuleGpu>> gpu = ModuleGpu::Create(table, device);
    if (!gpu.ok()) return gpu.status();
    place->gpu_ = *std::move(gpu);
    place->kernels_ = std::make_unique<cuda::CudaAttention>(*place->gpu_);
    absl::StatusOr<std::unique_ptr<DeviceTransport>> transport =
        MakeCudaIpcTransport(control, *place->cuda_, {.device = device, .epoch = 1}, absl::Now() + kStart);
    if (!transport.ok()) return transport.status();
    place->transport_ = *std::move(transport);
    return place;
  }

  const AttentionKernels& kernels() override { return *kernels_; }
  Transport& transport() override { return *transport_; }
  absl::Status Close() override { return transport_->Close(absl::Now() + kStart); }

 private:
  std::unique_ptr<CudaApi> cuda_;
  std::unique_ptr<ModuleGpu> gpu_;
  std::unique_ptr<cuda::CudaAttention> kernels_;
  std::unique_ptr<DeviceTransport> transport_;
};

// Asked in a process of its own: one that has used CUDA cannot be forked.
int Devices(const rondo_cuda_module_v1* table) {
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    const int error = table->device_count(&count);
    _exit(error == 0 ? std::min(count, 100) : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

int Main() {
  const OpenedModule module = OpenGpuModule(GpuModulePaths());
  if (module.table == nullptr) Fail("the GPU module: " + module.error);
  if (module.table->attend == nullptr) Fail("the GPU module was built without nvcc and holds no kernels");
  const int devices = Devices(module.table);
  if (devices == 0) Fail("the CUDA runtime sees no device");
  const MakePlace make = [&](Transport& control, int device) { return GpuPlace::Make(module.table, control, device); };
  RanksToCheck check;
  check.job.shape = {.q_heads = 8, .kv_heads = 2, .head_dim = 128, .kv_type = KvType::kBf16, .scale = 0.08838834764f};
  check.job.shape.leaf_level = module.table->leaf_level;
  // Three ranks deal six pieces; no piece is less than a leaf of 4,096 keys, and the last one is ragged.
  check.job.prompt = 7 * 4096 + 1000;
  check.job.drawn = 4;
  check.worlds = {2, 3};
  check.limit = absl::Seconds(50);
  CheckLawOverRanks(check, make);
  if (devices == 1) return 0;
  check.devices = std::min(devices, 4);
  check.worlds = {check.devices};
  CheckLawOverRanks(check, make);
  return 0;
}

}  // namespace
}  // namespace rondo::gpu_check

int main() { return rondo::gpu_check::Main(); }
