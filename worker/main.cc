// rondo-worker: one rank of a ring under mpirun, or several as threads (--transport loopback).
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/log.h"
#include "kernels/cuda/backend/cuda_attention.h"
#include "kernels/cuda/backend/cuda_dense.h"
#include "model/gguf/llama_loader.h"
#include "worker/device/choose_device.h"
#include "worker/device/gpu_transport.h"
#include "worker/device/module_dense.h"
#include "worker/device/module_gpu.h"
#include "worker/device/probe.h"
#include "worker/measure/measure.h"
#include "worker/options.h"
#include "worker/rpc/process_facts.h"
#include "worker/run_rank.h"
#include "worker/transport/loopback_transport.h"
#include "worker/transport/mpi_launch.h"
#include "worker/transport/nccl/nccl_path.h"
#if RONDO_HAVE_MPI
#include "worker/transport/mpi_cuda.h"
#include "worker/transport/mpi_transport.h"
#endif

namespace rondo {
namespace {

int Fail(const absl::Status& status) {
  LogError(std::string(status.message()));
  return 1;
}

int CheckModelFile(const std::string& path) {
  const absl::StatusOr<std::shared_ptr<const GgufFile>> file = GgufFile::Open(path);
  absl::StatusOr<LoadedModel> model = file.ok() ? LoadModel(*file) : file.status();
  absl::Status status = model.ok() ? CheckModel(*model) : model.status();
  if (status.ok()) status = Tokenizer::FromGguf(**file).status();
  if (!status.ok()) {
    std::cout << path << ": bad: " << std::string(status.message()) << "\n";
    return 1;
  }
  const ModelConfig& c = model->config;
  std::cout << absl::StrFormat(
      "%s: ok: %s, %d layers, %d wide, %d q heads on %d KV heads of %d, vocabulary %d, context %d%s\n", path, c.name,
      c.layers, c.embedding, c.q_heads, c.kv_heads, c.head_dim, c.vocab, c.context, c.quantised ? ", quantised" : "");
  return 0;
}

// Where this process computes and how it reaches the others.
struct Place {
  DeviceChoice device;
  TransportKind transport = TransportKind::kMpi;
  std::unique_ptr<CudaApi> cuda;  // null on the CPU, as the next two
  std::unique_ptr<ModuleGpu> gpu;
  std::unique_ptr<cuda::CudaAttention> attention;
  std::unique_ptr<ModuleDense> dense_gpu;  // null without a model, as the next
  std::unique_ptr<cuda::CudaDense> dense;
  const rondo_cuda_module_v1* module = nullptr;
};

absl::StatusOr<Place> ChoosePlace(const WorkerOptions& o, const std::optional<MpiLaunch>& launch) {
  RankPlace rank{.local_rank = 0, .local_size = o.ranks, .world = o.ranks};
  if (launch) rank = {.local_rank = launch->local_rank, .local_size = launch->local_size, .world = launch->world};
  DeviceRequest request = o.device;
  if (!o.model.empty() && !o.compute.empty() && o.compute != Name(ComputeMode::kBf16)) {
    request.cpu_for = absl::StrCat("--compute ", o.compute);
  }
  const bool threads = o.transport == TransportKind::kLoopback;
  if (threads && request.kind == DeviceRequest::Kind::kAuto) request.kind = DeviceRequest::Kind::kCpu;
  OpenedModule module;
  GpuFacts facts;
  if (request.kind != DeviceRequest::Kind::kCpu) {
    module = OpenGpuModule(GpuModulePaths());
    facts = ProbeGpu(module);
  }
  absl::StatusOr<DeviceChoice> device = ChooseDevice(request, rank, facts);
  if (!device.ok()) return device.status();
  const absl::StatusOr<TransportChoice> transport = ChooseTransport(o.transport, *device, rank, facts);
  if (!transport.ok()) return transport.status();
  // Once a machine, whatever the number of its ranks.
  if (rank.local_rank == 0 && !device->why.empty()) LogInfo("on the CPU: ", device->why);
  if (!transport->why.empty()) LogInfo("transport ", Name(transport->kind), ": ", transport->why);
  Place place;
  place.device = *std::move(device);
  place.transport = transport->kind;
  // Ranks that see one GPU and were put on CUDA IPC are taken to share it.
  if (place.transport == TransportKind::kCudaIpc && facts.devices.size() == 1) place.device.sharers = rank.local_size;
  if (!place.device.cuda) return place;
  place.module = module.table;
  place.cuda = MakeModuleCuda(module.table);
  absl::StatusOr<std::unique_ptr<ModuleGpu>> gpu = ModuleGpu::Create(module.table, place.device.index);
  if (!gpu.ok()) return gpu.status();
  place.gpu = *std::move(gpu);
  place.attention = std::make_unique<cuda::CudaAttention>(*place.gpu);
  return place;
}

// Everything of a rank that does not depend on which rank it is.
struct Shared {
  WorkerContext context;
  RankIdentity identity;
  int threads = 1;
};

absl::Status LoadModelFile(const WorkerOptions& o, Shared& shared) {
  absl::StatusOr<std::shared_ptr<const GgufFile>> file = GgufFile::Open(o.model);
  if (!file.ok()) return file.status();
  absl::StatusOr<LoadedModel> model = LoadModel(*file);
  if (!model.ok()) return model.status();
  absl::StatusOr<std::shared_ptr<const Tokenizer>> tokenizer = Tokenizer::FromGguf(**file);
  if (!tokenizer.ok()) return tokenizer.status();
  absl::StatusOr<std::string> sha256 = FileSha256(o.model);
  if (!sha256.ok()) return sha256.status();
  shared.context.model = std::make_shared<const LoadedModel>(*std::move(model));
  shared.context.tokenizer = *std::move(tokenizer);
  shared.identity.model_sha256 = *std::move(sha256);
  shared.identity.model_name = std::filesystem::path(o.model).filename().string();
  return absl::OkStatus();
}

// Peers keep open what they were sent, so memory of a sequence never goes back to the device.
absl::Status ReserveKv(const Place& place, uint64_t bytes) {
  if (place.transport != TransportKind::kCudaIpc || place.gpu->Reserve(bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("GPU ", place.device.index, ": no ", bytes,
                                                   " bytes in one piece for keys and values, ", place.gpu->free_bytes(),
                                                   " are free; give --kv-memory"));
}

// Weights, keys and values in the GPU's memory, in bf16; on the CPU what has no rows: tokens, sampling, the ring.
absl::Status ComputeOnGpu(Place& place, const WorkerOptions& o, Shared& shared) {
  WorkerContext& context = shared.context;
  context.kernels.name = place.attention->name();
  context.kernels.attention = place.attention.get();
  RONDO_CHECK(LeafLevelOf(KernelFamily(context.kernels.name)) == place.attention->leaf_level());
  if (o.kv_type.empty()) context.kv_type = KvType::kBf16;
  if (context.model != nullptr) {
    absl::StatusOr<std::unique_ptr<ModuleDense>> gpu = ModuleDense::Create(place.module, *place.gpu);
    if (!gpu.ok()) return gpu.status();
    place.dense_gpu = *std::move(gpu);
    absl::StatusOr<std::unique_ptr<cuda::CudaDense>> dense =
        cuda::CudaDense::Create(*place.dense_gpu, context.model->weights);
    if (!dense.ok()) return dense.status();
    place.dense = *std::move(dense);
    context.kernels.dense = place.dense.get();
    shared.identity.libraries = absl::StrCat(place.dense_gpu->library(), " on ", place.gpu->card());
  }
  // Of what the weights left; the rest is for rows and nodes.
  if (o.kv_memory_bytes > 0) return ReserveKv(place, o.kv_memory_bytes);
  shared.identity.kv_memory_bytes = context.kv_memory_bytes = place.gpu->free_bytes() / 2 / place.device.sharers;
  return ReserveKv(place, context.kv_memory_bytes);
}

absl::StatusOr<Shared> Load(const WorkerOptions& o, const DeviceChoice& device, int local_ranks) {
  Shared shared;
  WorkerContext& context = shared.context;
  if (!o.model.empty()) {
    if (absl::Status loaded = LoadModelFile(o, shared); !loaded.ok()) return loaded;
  }
  absl::StatusOr<KernelSet> kernels = SelectKernels(o.kernels);
  if (!kernels.ok()) return kernels.status();
  context.kernels = *kernels;
  if (context.model != nullptr) {
    const absl::StatusOr<ComputeMode> compute = ChooseCompute(o.compute, device, context.model->config.quantised);
    if (!compute.ok()) return compute.status();
    context.compute = *compute;
  } else {
    context.compute = ParseComputeMode(o.compute).value_or(ComputeMode::kF32);
  }
  context.kv_type =
      ParseKvType(o.kv_type).value_or(context.compute == ComputeMode::kF32 ? KvType::kF32 : KvType::kBf16);
  context.prefill_chunk = o.prefill_chunk_tokens;
  context.strategy = o.strategy;

  shared.threads = o.threads > 0 ? o.threads : std::max(1, CpuCount() / local_ranks);
  RankIdentity& identity = shared.identity;
  identity.coordinator = o.coordinator;
  identity.cpus = CpuSet();
  identity.kv_memory_bytes = o.kv_memory_bytes > 0 ? o.kv_memory_bytes : AvailableMemoryBytes() / 2 / local_ranks;
  context.kv_memory_bytes = identity.kv_memory_bytes;
  context.available_memory = AvailableMemoryBytes;
  return shared;
}

void LogStart(const Shared& shared) {
  LogInfo(shared.context.model == nullptr ? "no model: attention jobs only" : shared.identity.model_name, ", kernels ",
          shared.context.kernels.name, shared.identity.libraries.empty() ? "" : " with ", shared.identity.libraries,
          ", compute ", Name(shared.context.compute), ", KV ", Name(shared.context.kv_type), " in ",
          shared.identity.kv_memory_bytes >> 20, " MiB, ", shared.threads, " threads on CPUs ", shared.identity.cpus);
}

std::string NewLaunchId() {
  std::random_device random;
  std::string bytes;
  for (int i = 0; i < 4; ++i) {
    const uint32_t word = random();
    bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  return absl::BytesToHexString(bytes);
}

int Depart(const Departure& departure) {
  if (departure.orderly) {
    LogInfo("leaving: ", std::string(departure.reason.message()));
    return 0;
  }
  return Fail(departure.reason);
}

// Rank 0 prints; returns the exit code.
int Measure(const WorkerContext& context) {
  const absl::StatusOr<MeasuredRates> rates = MeasureRates(context);
  if (!rates.ok()) return Fail(rates.status());
  if (context.transport->rank() == 0) std::cout << "measured " << MeasuredJson(*rates, context) << std::endl;
  return 0;
}

int RunLoopback(const WorkerOptions& o, Shared shared) {
  LoopbackHub hub(o.ranks);
  shared.identity.launch_id = NewLaunchId();
  LogStart(shared);
  std::vector<std::thread> threads;
  std::vector<int> codes(o.ranks);
  for (int rank = 0; rank < o.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Transport> transport = hub.Connect(rank);
      ThreadPool pool(shared.threads);
      WorkerContext context = shared.context;
      context.transport = transport.get();
      context.pool = &pool;
      codes[rank] = o.measure ? Measure(context) : Depart(RunRank(context, shared.identity, o.data_listen));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(codes.begin(), codes.end());
}

#if RONDO_HAVE_MPI
// GPUs come up within seconds; NCCL over many machines takes longer.
constexpr absl::Duration kGpuStart = absl::Minutes(2);
// A thread that looks at its transfers every tenth of a millisecond answers sooner, or never.
constexpr absl::Duration kForget = absl::Seconds(10);

int RunMpi(const WorkerOptions& o, const Place& place, Shared shared) {
  // mpirun's end is ours, however it ends.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  absl::StatusOr<std::unique_ptr<MpiTransport>> mpi = MpiTransport::Create();
  if (!mpi.ok()) {
    Fail(mpi.status());
    HardExit(1);
  }
  MpiTransport& transport = **mpi;
  SetLogRole(absl::StrCat("worker ", transport.rank()));
  shared.identity.launch_id = NewLaunchId();
  absl::Status agreed = transport.Broadcast(
      0, transport.world_size(),
      absl::MakeSpan(reinterpret_cast<std::byte*>(shared.identity.launch_id.data()), shared.identity.launch_id.size()),
      absl::Now() + absl::Minutes(1));
  if (!agreed.ok()) {
    Fail(agreed);
    HardExit(1);
  }
  GpuTransport gpu;
  agreed = AgreeOnPlace({place.device.cuda, place.transport}, transport, absl::Now() + kGpuStart);
  if (!agreed.ok()) {
    Fail(agreed);
    HardExit(1);
  }
  if (place.cuda != nullptr) {
    if (place.transport == TransportKind::kMpi && transport.rank() == 0) {
      LogInfo("transport mpi: device memory goes through pinned host memory; ", Describe(AskMpiCudaSupport()));
    }
    absl::StatusOr<GpuTransport> made = MakeGpuTransport(place.transport, place.device.index, transport, *place.cuda,
                                                         shared.identity.launch_id, absl::Now() + kGpuStart);
    if (!made.ok()) {
      Fail(made.status());
      HardExit(1);
    }
    gpu = *std::move(made);
    if (place.transport == TransportKind::kNccl) place.gpu->LeaveMultiprocessors(NcclOptions{}.max_ctas);
    place.gpu->BeforeFree([transport = gpu.transport.get()](void* memory) {
      return transport->Forget(static_cast<std::byte*>(memory), absl::Now() + kForget).ok();
    });
  }
  LogStart(shared);
  ThreadPool pool(shared.threads);
  shared.context.transport = gpu.transport != nullptr ? static_cast<Transport*>(gpu.transport.get()) : &transport;
  shared.context.pool = &pool;
  const Departure departure =
      o.measure ? Departure{absl::OkStatus(), true} : RunRank(shared.context, shared.identity, o.data_listen);
  const int code = o.measure ? Measure(shared.context) : Depart(departure);
  // After a failure MPI_Finalize could wait for a rank that is gone.
  if (departure.orderly && code == 0) {
    if (gpu.transport != nullptr) {
      if (absl::Status closed = gpu.transport->Close(absl::Now() + absl::Seconds(5)); !closed.ok()) {
        HardExit(Fail(closed));
      }
    }
    if (absl::Status closed = transport.Close(absl::Now() + absl::Seconds(5)); !closed.ok()) HardExit(Fail(closed));
  }
  HardExit(code);
}
#endif

int Main(int argc, char** argv) {
  WorkerOptions options;
  if (const int code = ParseWorkerOptions(argc, argv, &options); code >= 0) return code;
  std::signal(SIGPIPE, SIG_IGN);
  SetLogRole("worker");
  if (options.check_model) return CheckModelFile(options.model);
  const std::optional<MpiLaunch> launch = MpiLaunch::FromEnvironment();
  const bool threads = options.transport == TransportKind::kLoopback;
  const int local_ranks = threads ? options.ranks : (launch ? launch->local_size : 1);
  if (!threads && launch) SetLogRole(absl::StrCat("worker ", launch->rank));
  absl::StatusOr<Place> place = ChoosePlace(options, threads ? std::nullopt : launch);
  if (!place.ok()) return Fail(place.status());
  absl::StatusOr<Shared> shared = Load(options, place->device, local_ranks);
  if (!shared.ok()) return Fail(shared.status());
  if (place->attention != nullptr) {
    if (absl::Status ready = ComputeOnGpu(*place, options, *shared); !ready.ok()) return Fail(ready);
  }
  shared->identity.transport = Name(place->transport);
  if (threads) return RunLoopback(options, *std::move(shared));
#if RONDO_HAVE_MPI
  return RunMpi(options, *place, *std::move(shared));
#else
  return Fail(absl::FailedPreconditionError("this build has no MPI; use --transport loopback"));
#endif
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) { return rondo::Main(argc, argv); }
