#include "tests/testing/fake_cuda.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rondo::testing {
namespace {

// Freeing waits for the device. Longer than this, and a real one would wait for good.
constexpr auto kLongestWait = std::chrono::seconds(20);

}  // namespace

FakeHost::FakeHost(int count, uint64_t seed) : random_(seed) {
  for (int i = 0; i < count; ++i) {
    CudaDeviceFacts& facts = devices.emplace_back();
    facts.name = "NVIDIA Fake";
    facts.uuid[15] = static_cast<uint8_t>(i);
    facts.capability = 90;
    facts.memory_bytes = uint64_t{1} << 30;
  }
}

void FakeHost::Violation(std::string what) {
  std::lock_guard lock(own_mutex_);
  violations_.push_back(std::move(what));
}

std::vector<std::string> FakeHost::violations() {
  std::lock_guard lock(own_mutex_);
  return violations_;
}

std::chrono::microseconds FakeHost::Delay() {
  std::lock_guard lock(own_mutex_);
  return std::chrono::microseconds(random_() % 4 == 0 ? random_() % 200 : 0);
}

FakeHost::Thread& FakeHost::This() {
  thread_local Thread thread;
  return thread;
}

struct FakeCuda::Stream {
  using Work = std::function<void(const std::atomic<bool>& ending)>;
  Stream(FakeHost& h, int d) : host(h), device(d), thread([this] { Main(); }) {}
  ~Stream() {
    ending = true;
    {
      std::lock_guard lock(host.mutex);
      host.wake.notify_all();
    }
    thread.join();
  }
  void Main() {
    while (true) {
      Work next;
      {
        std::unique_lock lock(host.mutex);
        host.wake.wait(lock, [&] { return ending || !work.empty(); });
        if (ending) return;
        next = work.front();
      }
      std::this_thread::sleep_for(host.Delay());
      next(ending);
      std::lock_guard lock(host.mutex);
      work.pop_front();
      host.wake.notify_all();
    }
  }

  FakeHost& host;
  const int device;
  std::atomic<bool> ending{false};
  std::deque<Work> work;  // the front is being done
  std::thread thread;
};

FakeCuda::~FakeCuda() { streams_.clear(); }

absl::Status FakeCuda::Use(int device) {
  if (device < 0 || device >= static_cast<int>(host_.devices.size())) {
    return absl::InternalError(absl::StrCat("cudaSetDevice(", device, "): invalid device ordinal"));
  }
  FakeHost::This() = {this, device};
  return absl::OkStatus();
}

absl::StatusOr<CudaDeviceFacts> FakeCuda::Facts(int device) { return host_.devices.at(device); }

absl::StatusOr<CudaStream*> FakeCuda::MakeStream() {
  auto stream = std::make_shared<Stream>(host_, FakeHost::This().device);
  auto* const handle = reinterpret_cast<CudaStream*>(stream.get());
  std::lock_guard lock(host_.mutex);
  streams_[handle] = std::move(stream);
  return handle;
}

// As CUDA: what is on it is still done. Bounded, as a test must end.
void FakeCuda::Drop(CudaStream* handle) {
  const std::shared_ptr<Stream> stream = StreamOf(handle);
  std::unique_lock lock(host_.mutex);
  if (!host_.wake.wait_for(lock, kLongestWait, [&] { return stream->work.empty(); })) {
    host_.Violation("a stream was dropped with work on it that does not end");
  }
  streams_.erase(handle);
}

absl::StatusOr<CudaEvent*> FakeCuda::MakeEvent(bool interprocess) {
  auto event = std::make_shared<Event>();
  event->interprocess = interprocess;
  auto* const handle = reinterpret_cast<CudaEvent*>(event.get());
  std::lock_guard lock(host_.mutex);
  events_[handle] = std::move(event);
  return handle;
}

void FakeCuda::Drop(CudaEvent* handle) {
  std::lock_guard lock(host_.mutex);
  if (events_.erase(handle) == 0) host_.Violation("an event was dropped that does not exist");
}

std::shared_ptr<FakeCuda::Stream> FakeCuda::StreamOf(CudaStream* handle) {
  std::lock_guard lock(host_.mutex);
  const auto found = streams_.find(handle);
  if (found != streams_.end()) return found->second;
  if (handle != nullptr) host_.Violation("a stream was used that does not exist");
  return streams_[handle] = std::make_shared<Stream>(host_, FakeHost::This().device);  // null: the default stream
}

std::shared_ptr<FakeCuda::Event> FakeCuda::EventOf(CudaEvent* handle) {
  std::lock_guard lock(host_.mutex);
  const auto found = events_.find(handle);
  if (found != events_.end()) return found->second;
  host_.Violation("an event was used that does not exist");
  return std::make_shared<Event>();
}

void FakeCuda::Enqueue(CudaStream* handle, std::function<void(const std::atomic<bool>& ending)> work) {
  const std::shared_ptr<Stream> stream = StreamOf(handle);
  std::lock_guard lock(host_.mutex);
  stream->work.push_back(std::move(work));
  host_.wake.notify_all();
}

absl::Status FakeCuda::Record(CudaEvent* handle, CudaStream* stream) {
  const std::shared_ptr<Event> event = EventOf(handle);
  uint64_t number = 0;
  {
    std::lock_guard lock(host_.mutex);
    number = ++event->recorded;
  }
  Enqueue(stream, [this, event, number](const std::atomic<bool>&) {
    std::lock_guard lock(host_.mutex);
    event->reached = number;
    host_.wake.notify_all();
  });
  return absl::OkStatus();
}

absl::StatusOr<bool> FakeCuda::Reached(CudaEvent* handle) {
  const std::shared_ptr<Event> event = EventOf(handle);
  std::lock_guard lock(host_.mutex);
  return event->reached >= event->recorded;
}

absl::Status FakeCuda::WaitFor(CudaStream* stream, CudaEvent* handle) {
  const std::shared_ptr<Event> event = EventOf(handle);
  uint64_t number = 0;
  {
    std::lock_guard lock(host_.mutex);
    number = event->recorded;
  }
  Enqueue(stream, [this, event, number](const std::atomic<bool>& ending) {
    std::unique_lock lock(host_.mutex);
    host_.wake.wait(lock, [&] { return ending || event->reached >= number; });
  });
  return absl::OkStatus();
}

absl::StatusOr<std::byte*> FakeCuda::Make(size_t bytes, Kind kind) {
  Allocation allocation{std::make_unique<std::byte[]>(bytes), bytes, kind, FakeHost::This().device};
  std::memset(allocation.bytes.get(), 0xcd, bytes);
  std::byte* const memory = allocation.bytes.get();
  std::lock_guard lock(host_.mutex);
  allocations_[memory] = std::move(allocation);
  return memory;
}

void FakeCuda::WaitForDevice(int device) {
  std::unique_lock lock(host_.mutex);
  const auto idle = [&] {
    for (const auto& [handle, stream] : streams_) {
      if (stream->device == device && !stream->work.empty()) return false;
    }
    return true;
  };
  if (!host_.wake.wait_for(lock, kLongestWait, idle))
    host_.Violation("memory was freed on a device that does not come to rest");
}

void FakeCuda::DropAllocation(std::byte* memory, Kind kind) {
  int device = 0;
  {
    std::lock_guard lock(host_.mutex);
    const auto found = allocations_.find(memory);
    if (found == allocations_.end() || found->second.kind != kind) {
      host_.Violation("memory was freed that was not allocated so");
      return;
    }
    device = found->second.device;
  }
  WaitForDevice(device);
  std::lock_guard lock(host_.mutex);
  if (host_.opened.contains(memory)) host_.Violation("memory was freed that another process has open");
  if (host_.registered.contains(memory)) host_.Violation("memory was freed that is registered with NCCL");
  allocations_.erase(memory);
}

const FakeCuda::Allocation* FakeCuda::Find(const std::byte* memory, size_t bytes) {
  auto after = allocations_.upper_bound(const_cast<std::byte*>(memory));
  if (after == allocations_.begin()) return nullptr;
  const auto& [base, allocation] = *std::prev(after);
  return memory + bytes <= base + allocation.size ? &allocation : nullptr;
}

bool FakeCuda::Reachable(const std::byte* memory, size_t bytes) {
  std::lock_guard lock(host_.mutex);
  if (Find(memory, bytes) != nullptr) return true;
  for (const auto& [base, opening] : opened_) {
    if (memory >= base && memory + bytes <= base + opening.first) return true;
  }
  return false;
}

absl::StatusOr<bool> FakeCuda::InDeviceMemory(const std::byte* memory) {
  std::lock_guard lock(host_.mutex);
  const Allocation* const allocation = Find(memory, 1);
  return allocation != nullptr && allocation->kind != Kind::kPinned;
}

absl::StatusOr<CudaAllocation> FakeCuda::AllocationOf(const std::byte* memory) {
  std::lock_guard lock(host_.mutex);
  const Allocation* const allocation = Find(memory, 1);
  if (allocation == nullptr || allocation->kind == Kind::kPinned) {
    return absl::InternalError("cuMemGetAddressRange: invalid argument");
  }
  return CudaAllocation{allocation->bytes.get(), allocation->size};
}

absl::Status FakeCuda::Copy(std::byte* to, const std::byte* from, size_t bytes, CudaStream* stream) {
  if (!Reachable(to, bytes) || !Reachable(from, bytes)) {
    host_.Violation("a copy touches memory that is neither the device's nor pinned");
    return absl::InternalError("cudaMemcpyAsync: invalid argument");
  }
  Enqueue(stream, [this, to, from, bytes](const std::atomic<bool>&) {
    if (!Reachable(to, bytes) || !Reachable(from, bytes)) {
      host_.Violation("a copy touches memory that was freed meanwhile");
      return;
    }
    std::memcpy(to, from, bytes);
  });
  return absl::OkStatus();
}

size_t FakeCuda::open_things() {
  std::lock_guard lock(host_.mutex);
  return streams_.size() - streams_.count(nullptr) + events_.size() + allocations_.size() + opened_.size();
}

}  // namespace rondo::testing
