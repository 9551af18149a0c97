#include "worker/transport/cuda_ipc/cuda_ipc_transport.h"

#include <utility>

#include "base/log.h"
#include "worker/transport/cuda_ipc/cuda_ipc_path.h"
#include "worker/transport/device/preflight.h"

namespace rondo {

absl::StatusOr<std::unique_ptr<DeviceTransport>> MakeCudaIpcTransport(Transport& control, CudaApi& cuda,
                                                                      const DeviceTransportOptions& options,
                                                                      absl::Time deadline, int64_t process) {
  const absl::Status used = cuda.Use(options.device);
  absl::StatusOr<RankFacts> own = used.ok() ? GatherFacts(cuda, options.device) : used;
  if (absl::Status well = AgreeAllWell(control, own.status(), deadline); !well.ok()) return well;
  own->transport = "cuda-ipc";
  own->epoch = options.epoch;
  if (process != 0) own->process = process;
  const absl::StatusOr<std::vector<RankFacts>> all = ExchangeFacts(control, *own, deadline);
  if (!all.ok()) return all.status();
  if (absl::Status fits = CheckFacts(*all); !fits.ok()) return fits;
  std::vector<uint64_t> processes;
  for (const RankFacts& facts : *all) {
    if (control.rank() == 0) LogInfo(Describe(facts, static_cast<int>(processes.size())));
    processes.push_back(static_cast<uint64_t>(facts.process));
  }
  return DeviceTransport::Create(control, cuda,
                                 std::make_unique<CudaIpcPath>(cuda, control.rank(), std::move(processes)), options);
}

}  // namespace rondo
