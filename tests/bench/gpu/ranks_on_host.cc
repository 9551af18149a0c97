// gpu_check_ranks without a GPU: real processes over a CUDA whose IPC is files, with the kernels on the emulator:
// `gpu_ranks_on_host`. The variable RONDO_PLANT makes rank 1 wrong in one way, which must be found.
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/time/clock.h"
#include "bench/gpu/ranks/law_over_ranks.h"
#include "kernels/cuda/backend/cuda_attention.h"
#include "tests/kernels/cuda/backend/emulated_gpu.h"
#include "tests/testing/process_cuda.h"
#include "worker/transport/cuda_ipc/cuda_ipc_transport.h"

namespace rondo::gpu_check {
namespace {

using testing::ProcessCuda;

bool Planted(std::string_view name) {
  const char* plant = std::getenv("RONDO_PLANT");
  return plant != nullptr && plant == name;
}

// An emulated GPU whose memory others can open. As ModuleGpu, it gives none back before the end.
class SharingGpu : public cuda::EmulatedGpu {
 public:
  explicit SharingGpu(ProcessCuda& cuda) : cuda_(cuda) {}
  ~SharingGpu() override {
    for (std::byte* memory : made_) cuda_.DropMemory(memory);
  }
  void* Allocate(size_t bytes) override {
    made_.push_back(cuda_.MakeMemory(bytes).value());
    return made_.back();
  }
  void Free(void*, size_t) override {}
  bool Owns(const void* p) const override { return cuda_.InDeviceMemory(static_cast<const std::byte*>(p)).value(); }
  void Copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memmove(to, from, bytes);
  }

 private:
  ProcessCuda& cuda_;
  std::vector<std::byte*> made_;
};

// Kernels with what was planted.
class PlantedAttention : public cuda::CudaAttention {
 public:
  PlantedAttention(cuda::Gpu& gpu, int rank) : CudaAttention(gpu), rank_(rank) {}

  void Attend(const AttentionShape& shape, const QueryRows& queries, absl::Span<const KvBlock> run,
              const MaskSpec& mask, absl::Span<const PartialNode> nodes, ThreadPool& pool) const override {
    if (rank_ == 1 && Planted("dies")) raise(SIGKILL);
    if (rank_ == 1 && Planted("hangs")) sleep(600);
    AttentionShape scaled = shape;
    if (Planted("everywhere")) scaled.scale *= 1.05f;
    CudaAttention::Attend(scaled, queries, run, mask, nodes, pool);
  }
  void Finish(const AttentionShape& shape, int64_t count, const PartialNode& node, float* out, float* lse,
              ThreadPool& pool) const override {
    CudaAttention::Finish(shape, count, node, out, lse, pool);
    if (rank_ == 1 && Planted("bits")) out[0] = std::nextafter(out[0], 1e9f);
  }

 private:
  const int rank_;
};

class HostPlace : public RankPlace {
 public:
  static absl::StatusOr<std::unique_ptr<RankPlace>> Make(Transport& control, int device) {
    auto place = std::make_unique<HostPlace>(control.rank());
    absl::StatusOr<std::unique_ptr<DeviceTransport>> transport =
        MakeCudaIpcTransport(control, place->cuda_, {.device = device, .epoch = 1}, absl::Now() + absl::Minutes(1));
    if (!transport.ok()) return transport.status();
    place->transport_ = *std::move(transport);
    return place;
  }
  explicit HostPlace(int rank) : kernels_(gpu_, rank) {}

  const AttentionKernels& kernels() override { return kernels_; }
  Transport& transport() override { return *transport_; }
  absl::Status Close() override {
    std::fprintf(stderr, "opened %lld of %d ranks\n", static_cast<long long>(cuda_.opened_in_all()),
                 transport_->world_size());
    return transport_->Close(absl::Now() + absl::Minutes(1));
  }

 private:
  ProcessCuda cuda_;
  SharingGpu gpu_{cuda_};
  PlantedAttention kernels_;
  std::unique_ptr<DeviceTransport> transport_;
};

}  // namespace
}  // namespace rondo::gpu_check

int main() {
  using namespace rondo::gpu_check;
  RanksToCheck check;
  check.job.shape = {.q_heads = 2, .kv_heads = 1, .head_dim = 64, .kv_type = rondo::KvType::kBf16, .scale = 0.125f};
  check.job.shape.leaf_level = 1;
  check.job.prompt = 1300;  // leaves of 512
  check.job.drawn = 2;
  check.worlds = {2, 3};
  check.limit = absl::Minutes(2);
  if (Planted("hangs")) {  // one that does not must be through long before
    check.job.prompt = 600;
    check.worlds = {2};
    check.limit = absl::Seconds(15);
  }
  CheckLawOverRanks(check, HostPlace::Make);
}
