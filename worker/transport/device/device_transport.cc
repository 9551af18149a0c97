#include "worker/transport/device/device_transport.h"

#include <utility>

#include "absl/time/clock.h"
#include "worker/transport/device/engine.h"

namespace rondo {
namespace {

CudaStream* Stream(DeviceStream stream) { return static_cast<CudaStream*>(stream.handle); }

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceTransport>> DeviceTransport::Create(Transport& control, CudaApi& cuda,
                                                                         std::unique_ptr<DevicePath> path,
                                                                         const DeviceTransportOptions& options) {
  auto engine = std::make_shared<Engine>(control, cuda, std::move(path), options);
  if (absl::Status started = engine->Start(); !started.ok()) {
    engine->Join();
    return started;
  }
  return std::unique_ptr<DeviceTransport>(new DeviceTransport(std::move(engine)));
}

DeviceTransport::DeviceTransport(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}
DeviceTransport::~DeviceTransport() { engine_->Join(); }

absl::Status DeviceTransport::Close(absl::Time deadline) { return engine_->Close(deadline); }
int DeviceTransport::rank() const { return engine_->rank(); }
int DeviceTransport::world_size() const { return engine_->world(); }
uint64_t DeviceTransport::sent_bytes() const { return engine_->sent_bytes(); }
bool DeviceTransport::Ready(Pending pending) { return engine_->Ready(pending.id); }
void DeviceTransport::Abort(absl::Status reason) { engine_->Abort(reason); }
absl::Status DeviceTransport::StartAfter(DeviceStream stream) { return engine_->StartAfter(Stream(stream)); }

absl::StatusOr<size_t> DeviceTransport::Wait(Pending pending, absl::Time deadline) {
  return engine_->Wait(pending.id, deadline);
}

absl::StatusOr<size_t> DeviceTransport::WaitOn(DeviceStream stream, Pending pending, absl::Time deadline) {
  return engine_->WaitOn(Stream(stream), pending.id, deadline);
}

absl::StatusOr<Transport::Pending> DeviceTransport::Post(absl::Span<const Transfer> transfers) {
  const absl::StatusOr<uint64_t> id = engine_->Post(transfers);
  if (!id.ok()) return id.status();
  return Pending{*id};
}

namespace {

// Where the path has memory of its own kind it is from there.
class PathMemory : public DeviceMemory {
 public:
  PathMemory(std::function<void()> free, std::byte* data, size_t size) : free_(std::move(free)), bytes_(data, size) {}
  ~PathMemory() override { free_(); }
  absl::Span<std::byte> bytes() const override { return bytes_; }

 private:
  const std::function<void()> free_;
  const absl::Span<std::byte> bytes_;
};

// Freeing device memory may wait for the device, and a device that hangs is the failure that is being ended.
constexpr absl::Duration kFreeTimeout = absl::Seconds(10);

}  // namespace

absl::Status DeviceTransport::Forget(std::byte* base, absl::Time deadline) {
  auto forgotten = std::make_shared<absl::Status>(absl::UnavailableError("not forgotten"));
  Engine* const engine = engine_.get();
  const bool in_time = engine->RunInThread(
      [engine, forgotten, base, deadline] {
        *forgotten = engine->path() != nullptr ? engine->path()->Forget(base, deadline) : absl::OkStatus();
      },
      deadline);
  if (!in_time) return absl::DeadlineExceededError("freeing device memory: not done before the deadline");
  return *forgotten;
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> DeviceTransport::Allocate(size_t bytes, absl::Time deadline) {
  // Outlives this call where the deadline ends it before the thread gets there.
  auto memory = std::make_shared<absl::StatusOr<std::byte*>>(absl::UnavailableError("not allocated"));
  Engine* const engine = engine_.get();
  const bool in_time = engine->RunInThread(
      [engine, memory, bytes, deadline] {
        *memory =
            engine->path() != nullptr ? engine->path()->Allocate(bytes, deadline) : engine->cuda().MakeMemory(bytes);
      },
      deadline);
  if (!in_time) {
    return absl::DeadlineExceededError(
        absl::StrCat("allocating ", bytes, " bytes of device memory: not done before the deadline"));
  }
  if (!memory->ok()) return memory->status();
  std::byte* const data = **memory;
  auto free = [engine = engine_, data] {
    engine->RunInThread(
        [engine, data] {
          if (engine->path() != nullptr) {
            engine->path()->Free(data);
          } else {
            engine->cuda().DropMemory(data);
          }
        },
        absl::Now() + kFreeTimeout);
  };
  return std::make_unique<PathMemory>(std::move(free), data, bytes);
}

}  // namespace rondo
