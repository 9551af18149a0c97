// Which device and which transport a worker runs with: decisions as functions of values, made once at start by
// worker/main and told in one log line.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "rondo/compute.h"
#include "worker/device/gpu_facts.h"

namespace rondo {

// --device auto|cpu|cuda[:index].
struct DeviceRequest {
  enum class Kind { kAuto, kCpu, kCuda };
  Kind kind = Kind::kAuto;
  std::optional<int> index = std::nullopt;  // none: by local rank
  bool needs_cudnn = false;                 // --kernels cudnn
  std::string cpu_for = {};  // what was asked for that CPUs alone do, e.g. "--compute q8": auto takes the CPU then
};
// INVALID_ARGUMENT naming what may be given.
absl::StatusOr<DeviceRequest> ParseDevice(const std::string& text);

// Why a worker cannot run on a GPU; the first that holds, in this order.
enum class GpuReason {
  kNone,
  kModuleAbsent,
  kCublasMissing,
  kModuleUnusable,
  kDriverAbsent,
  kDriverTooOld,
  kNoDevice,
  kNoSuchDevice,
  kCapabilityTooLow,
  kNoKernels,
  kCudnnMissing,
};

struct DeviceChoice {
  bool cuda = false;
  int index = 0;    // as CUDA counts
  int sharers = 1;  // ranks of this machine that may use the same GPU, this one too
  // Why not a GPU, and what to do about it; for auto. kNone where a GPU was chosen, or was not asked for.
  GpuReason reason = GpuReason::kNone;
  std::string why;
};

// kNone, or the first reason with its text in `why`.
GpuReason JudgeGpu(const DeviceRequest& request, const RankPlace& place, const GpuFacts& facts, std::string* why);

// `auto` falls to the CPU and says why; `cuda` that cannot be is FAILED_PRECONDITION with the same text.
absl::StatusOr<DeviceChoice> ChooseDevice(const DeviceRequest& request, const RankPlace& place, const GpuFacts& facts);

// What a rank with a model computes in. `asked` is --compute, or empty: bf16 on a GPU, on a CPU q8 for quantised
// weights and else f32. FAILED_PRECONDITION for what the other kind of device does.
absl::StatusOr<ComputeMode> ChooseCompute(const std::string& asked, const DeviceChoice& device, bool quantised);

// --transport auto|loopback|mpi|nccl|cuda-ipc.
enum class TransportKind { kAuto, kLoopback, kMpi, kNccl, kCudaIpc };
std::optional<TransportKind> ParseTransport(const std::string& text);
std::string Name(TransportKind kind);

struct TransportChoice {
  TransportKind kind = TransportKind::kMpi;
  std::string why;  // for auto on a GPU; empty: nothing to say
};

// Never kAuto. On a GPU auto takes NCCL, CUDA IPC where ranks of one machine share GPUs, else MPI, which copies through
// host memory. FAILED_PRECONDITION where a transport was asked for that cannot be: without a GPU, without NCCL, with
// more ranks than GPUs (nccl), over several machines (cuda-ipc).
absl::StatusOr<TransportChoice> ChooseTransport(TransportKind asked, const DeviceChoice& device, const RankPlace& place,
                                                const GpuFacts& facts);

}  // namespace rondo
