#include "worker/device/choose_device.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace rondo {
namespace {

// The kernels are written for mma.sync of bf16 and cp.async, which came with the A100.
constexpr int kLeastCapability = 80;

// 13020 as 13.2, as CUDA writes its versions.
std::string CudaText(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }
std::string CapabilityText(int capability) { return absl::StrCat(capability / 10, ".", capability % 10); }

int IndexOf(const DeviceRequest& request, const RankPlace& place, const GpuFacts& facts) {
  if (request.index) return *request.index;
  return facts.devices.empty() ? 0 : place.local_rank % static_cast<int>(facts.devices.size());
}

}  // namespace

absl::StatusOr<DeviceRequest> ParseDevice(const std::string& text) {
  if (text == "auto") return DeviceRequest{};
  if (text == "cpu") return DeviceRequest{.kind = DeviceRequest::Kind::kCpu};
  DeviceRequest request{.kind = DeviceRequest::Kind::kCuda};
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "cuda")) {
    if (rest.empty()) return request;
    int index = -1;
    if (absl::ConsumePrefix(&rest, ":") && absl::SimpleAtoi(rest, &index) && index >= 0 && index < 1024) {
      request.index = index;
      return request;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("must be auto, cpu, cuda or cuda:INDEX (0 to 1023), not ", text));
}

GpuReason JudgeGpu(const DeviceRequest& request, const RankPlace& place, const GpuFacts& facts, std::string* why) {
  const auto reason = [why](GpuReason what, const std::string& text) {
    *why = text;
    return what;
  };
  if (!facts.module_error.empty() && facts.module_absent) {
    return reason(GpuReason::kModuleAbsent, absl::StrCat("no GPU module: ", facts.module_error,
                                                         "; build it with cmake --workflow --preset cuda"));
  }
  if (!facts.module_error.empty() && facts.cublas_missing) {
    return reason(GpuReason::kCublasMissing,
                  absl::StrCat("cuBLASLt is missing: ", facts.module_error,
                               "; install cuBLAS of that version, or name its folder in LD_LIBRARY_PATH"));
  }
  if (!facts.module_error.empty()) {
    return reason(GpuReason::kModuleUnusable, absl::StrCat("the GPU module cannot be used: ", facts.module_error,
                                                           "; build it together with this program"));
  }
  if (facts.driver_cuda == 0) {
    return reason(GpuReason::kDriverAbsent,
                  absl::StrCat("no NVIDIA driver", facts.driver_error.empty() ? "" : ": ", facts.driver_error,
                               "; install one (in a container: start it with --gpus all)"));
  }
  // A driver runs every minor version of a CUDA it knows.
  if (facts.driver_cuda / 1000 < facts.module_cuda / 1000) {
    return reason(
        GpuReason::kDriverTooOld,
        absl::StrCat("the NVIDIA driver runs CUDA up to ", CudaText(facts.driver_cuda), ", the GPU module needs ",
                     CudaText(facts.module_cuda / 1000 * 1000), "; install a newer driver"));
  }
  if (facts.devices.empty()) {
    return reason(GpuReason::kNoDevice,
                  absl::StrCat("the driver shows no GPU", facts.driver_error.empty() ? "" : ": ", facts.driver_error,
                               "; look at nvidia-smi and CUDA_VISIBLE_DEVICES"));
  }
  const int index = IndexOf(request, place, facts);
  if (index >= static_cast<int>(facts.devices.size())) {
    return reason(GpuReason::kNoSuchDevice, absl::StrCat("there is no GPU ", index, ": this process sees ",
                                                         facts.devices.size(), ", counted from 0"));
  }
  const GpuFacts::Device& device = facts.devices[index];
  if (device.capability < kLeastCapability) {
    return reason(GpuReason::kCapabilityTooLow,
                  absl::StrCat("GPU ", index, " (", device.name, ") has compute capability ",
                               CapabilityText(device.capability), ", needed: ", CapabilityText(kLeastCapability),
                               " (A100) or higher; choose another with --device cuda:INDEX"));
  }
  if (facts.module_targets.empty()) {
    return reason(GpuReason::kNoKernels, "the GPU module holds no kernels; build it where nvcc is installed");
  }
  if (request.needs_cudnn && !facts.cudnn_error.empty()) {
    return reason(GpuReason::kCudnnMissing, absl::StrCat("cuDNN is missing: ", facts.cudnn_error,
                                                         "; install cuDNN 9, or leave out --kernels cudnn"));
  }
  return GpuReason::kNone;
}

absl::StatusOr<DeviceChoice> ChooseDevice(const DeviceRequest& request, const RankPlace& place, const GpuFacts& facts) {
  DeviceChoice choice;
  if (request.kind == DeviceRequest::Kind::kCpu) return choice;
  if (request.kind == DeviceRequest::Kind::kAuto && !request.cpu_for.empty()) {
    choice.why = absl::StrCat(request.cpu_for, " is not for GPUs");
    return choice;
  }
  choice.reason = JudgeGpu(request, place, facts, &choice.why);
  choice.cuda = choice.reason == GpuReason::kNone;
  if (choice.cuda) {
    choice.index = IndexOf(request, place, facts);
    const int gpus = static_cast<int>(facts.devices.size());
    if (!facts.bound) choice.sharers = request.index ? place.local_size : (place.local_size + gpus - 1) / gpus;
  }
  if (!choice.cuda && request.kind == DeviceRequest::Kind::kCuda) {
    return absl::FailedPreconditionError(absl::StrCat("--device cuda: ", choice.why));
  }
  return choice;
}

absl::StatusOr<ComputeMode> ChooseCompute(const std::string& asked, const DeviceChoice& device, bool quantised) {
  const std::optional<ComputeMode> mode = ParseComputeMode(asked);
  if (device.cuda) {
    if (mode.value_or(ComputeMode::kBf16) == ComputeMode::kBf16) return ComputeMode::kBf16;
    return absl::FailedPreconditionError(absl::StrCat(
        "--compute ", asked, ": a GPU computes in bf16; leave --compute out, or take the CPU with --device cpu"));
  }
  if (mode == ComputeMode::kBf16) {
    return absl::FailedPreconditionError(
        absl::StrCat("--compute bf16: a CPU computes in f32 or q8, and bf16 is a "
                     "GPU's",
                     device.why.empty() ? "" : "; ", device.why));
  }
  return mode.value_or(quantised ? ComputeMode::kQ8 : ComputeMode::kF32);
}

std::optional<TransportKind> ParseTransport(const std::string& text) {
  for (const TransportKind kind : {TransportKind::kAuto, TransportKind::kLoopback, TransportKind::kMpi,
                                   TransportKind::kNccl, TransportKind::kCudaIpc}) {
    if (text == Name(kind)) return kind;
  }
  return std::nullopt;
}

std::string Name(TransportKind kind) {
  switch (kind) {
    case TransportKind::kAuto:
      return "auto";
    case TransportKind::kLoopback:
      return "loopback";
    case TransportKind::kMpi:
      return "mpi";
    case TransportKind::kNccl:
      return "nccl";
    case TransportKind::kCudaIpc:
      return "cuda-ipc";
  }
  return "";
}

absl::StatusOr<TransportChoice> ChooseTransport(TransportKind asked, const DeviceChoice& device, const RankPlace& place,
                                                const GpuFacts& facts) {
  const int gpus = static_cast<int>(facts.devices.size());
  const bool shared = place.local_size > gpus && !facts.bound;
  const bool one_machine = place.local_size == place.world;
  const std::string nccl_missing = absl::StrCat("NCCL is missing: ", facts.nccl_error, "; install NCCL 2.28 or newer");
  const std::string ranks_and_gpus =
      absl::StrCat(place.local_size, " ranks on this machine share ", gpus, gpus == 1 ? " GPU" : " GPUs");
  const auto refuse = [asked](const std::string& why) {
    return absl::FailedPreconditionError(absl::StrCat("--transport ", Name(asked), ": ", why));
  };
  switch (asked) {
    case TransportKind::kLoopback:
      if (device.cuda) return refuse("ranks as threads compute on CPUs; use --device cpu, or mpirun");
      return TransportChoice{asked, ""};
    case TransportKind::kMpi:
      return TransportChoice{asked, ""};
    case TransportKind::kNccl:
      if (!device.cuda) return refuse(device.why.empty() ? "needs --device cuda" : device.why);
      if (!facts.nccl_error.empty()) return refuse(nccl_missing);
      // Who sees one GPU alone may have it alone; ranks that do not are refused when they compare their GPUs.
      if (shared && gpus > 1)
        return refuse(absl::StrCat(ranks_and_gpus, ", and NCCL takes one rank a GPU; use --transport cuda-ipc"));
      return TransportChoice{asked, ""};
    case TransportKind::kCudaIpc:
      if (!device.cuda) return refuse(device.why.empty() ? "needs --device cuda" : device.why);
      if (!one_machine) {
        return refuse(
            absl::StrCat(place.local_size, " of ", place.world,
                         " ranks are on this machine, and cuda-ipc joins ranks of one; use --transport nccl"));
      }
      return TransportChoice{asked, ""};
    case TransportKind::kAuto:
      break;
  }
  if (!device.cuda || place.world == 1) return TransportChoice{TransportKind::kMpi, ""};
  if (facts.nccl_error.empty() && !shared) return TransportChoice{TransportKind::kNccl, "one rank a GPU"};
  const std::string why = shared ? ranks_and_gpus : nccl_missing;
  if (one_machine) return TransportChoice{TransportKind::kCudaIpc, why};
  return TransportChoice{TransportKind::kMpi, absl::StrCat(why, "; device memory goes through the host")};
}

}  // namespace rondo
