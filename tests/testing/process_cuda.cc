#include "tests/testing/process_cuda.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace rondo::testing {
namespace {

constexpr size_t kPage = 4096;

[[noreturn]] void Violation(const char* what) {
  std::fprintf(stderr, "CUDA would not have this: %s\n", what);
  std::abort();
}

}  // namespace

// Shared by all processes that have the file open.
struct Counters {
  std::atomic<int> openings{0};  // by processes other than its maker
  std::atomic<uint64_t> recorded{0}, reached{0};
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

struct ProcessCuda::Handle {
  int32_t process = 0;
  int32_t descriptor = -1;
  uint64_t bytes = 0;
};

// Work is done in order, a little late.
struct ProcessCuda::Stream {
  Stream() : thread([this] { Main(); }) {}
  ~Stream() {
    {
      std::lock_guard lock(mutex);
      ending = true;
      wake.notify_all();
    }
    thread.join();
  }
  void Main() {
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [&] { return ending || !work.empty(); });
      if (work.empty()) return;  // what is on it is still done
      const std::function<void()> next = std::move(work.front());
      work.pop_front();
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      next();
      lock.lock();
    }
  }

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> work;
  bool ending = false;
  std::thread thread;
};

struct ProcessCuda::Event {
  ~Event() { DropFile(file); }
  File file;
  bool interprocess = false;
};

std::byte* ProcessCuda::File::data() const { return reinterpret_cast<std::byte*>(counters) + kPage; }

ProcessCuda::~ProcessCuda() {
  streams_.clear();
  if (!opened_.empty()) Violation("memory of another process is still open at the end");
  for (const auto& [data, file] : memory_) DropFile(file);
}

ProcessCuda::File ProcessCuda::MakeFile(size_t bytes) {
  File file;
  file.bytes = kPage + bytes;
  file.descriptor = memfd_create("process_cuda", MFD_CLOEXEC);
  if (file.descriptor < 0 || ftruncate(file.descriptor, static_cast<off_t>(file.bytes)) != 0) std::abort();
  void* const base = mmap(nullptr, file.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0);
  if (base == MAP_FAILED) std::abort();
  file.counters = new (base) Counters;
  std::memset(file.data(), 0xcd, bytes);
  return file;
}

ProcessCuda::File ProcessCuda::OpenFile(const Handle& handle) {
  File file;
  file.bytes = handle.bytes;
  const std::string path = absl::StrCat("/proc/", handle.process, "/fd/", handle.descriptor);
  file.descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file.descriptor < 0) return file;
  void* const base = mmap(nullptr, file.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0);
  if (base == MAP_FAILED) std::abort();
  file.counters = static_cast<Counters*>(base);
  return file;
}

void ProcessCuda::DropFile(const File& file) {
  if (file.counters == nullptr) return;
  munmap(file.counters, file.bytes);
  close(file.descriptor);
}

absl::Status ProcessCuda::Use(int device) {
  if (device == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cudaSetDevice(", device, "): invalid device ordinal"));
}

absl::StatusOr<CudaDeviceFacts> ProcessCuda::Facts(int) {
  CudaDeviceFacts facts;
  facts.name = "NVIDIA Fake";
  facts.capability = 90;
  facts.memory_bytes = uint64_t{1} << 30;
  return facts;
}

absl::StatusOr<CudaStream*> ProcessCuda::MakeStream() {
  auto stream = std::make_shared<Stream>();
  auto* const handle = reinterpret_cast<CudaStream*>(stream.get());
  std::lock_guard lock(mutex_);
  streams_[handle] = std::move(stream);
  return handle;
}

void ProcessCuda::Drop(CudaStream* handle) {
  std::shared_ptr<Stream> stream;
  std::lock_guard lock(mutex_);
  stream = streams_.at(handle);
  streams_.erase(handle);
}

void ProcessCuda::Enqueue(CudaStream* handle, std::function<void()> work) {
  std::shared_ptr<Stream> stream;
  {
    std::lock_guard lock(mutex_);
    if (!streams_.contains(handle)) Violation("a stream that does not exist");
    stream = streams_[handle];
  }
  std::lock_guard lock(stream->mutex);
  stream->work.push_back(std::move(work));
  stream->wake.notify_all();
}

absl::StatusOr<CudaEvent*> ProcessCuda::MakeEvent(bool interprocess) {
  auto event = std::make_shared<Event>();
  event->file = MakeFile(0);
  event->interprocess = interprocess;
  auto* const handle = reinterpret_cast<CudaEvent*>(event.get());
  std::lock_guard lock(mutex_);
  events_[handle] = std::move(event);
  return handle;
}

void ProcessCuda::Drop(CudaEvent* handle) {
  std::lock_guard lock(mutex_);
  if (events_.erase(handle) == 0) Violation("an event is dropped that does not exist");
}

absl::Status ProcessCuda::Record(CudaEvent* handle, CudaStream* stream) {
  std::shared_ptr<Event> event;
  {
    std::lock_guard lock(mutex_);
    event = events_.at(handle);
  }
  const uint64_t number = ++event->file.counters->recorded;
  Enqueue(stream, [event, number] { event->file.counters->reached = number; });
  return absl::OkStatus();
}

absl::StatusOr<bool> ProcessCuda::Reached(CudaEvent* handle) {
  std::lock_guard lock(mutex_);
  const Counters& counters = *events_.at(handle)->file.counters;
  return counters.reached >= counters.recorded;
}

absl::Status ProcessCuda::WaitFor(CudaStream* stream, CudaEvent* handle) {
  std::shared_ptr<Event> event;
  {
    std::lock_guard lock(mutex_);
    event = events_.at(handle);
  }
  const uint64_t number = event->file.counters->recorded;
  Enqueue(stream, [event, number] {
    while (event->file.counters->reached < number) std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
  return absl::OkStatus();
}

absl::StatusOr<std::byte*> ProcessCuda::MakeMemory(size_t bytes) {
  const File file = MakeFile(bytes);
  std::lock_guard lock(mutex_);
  memory_[file.data()] = file;
  return file.data();
}

void ProcessCuda::DropMemory(std::byte* memory) {
  std::lock_guard lock(mutex_);
  const auto found = memory_.find(memory);
  if (found == memory_.end()) Violation("memory is freed that was not allocated");
  if (found->second.counters->openings > 0) Violation("memory is freed that another process has open");
  DropFile(found->second);
  memory_.erase(found);
}

absl::StatusOr<std::byte*> ProcessCuda::MakePinned(size_t bytes) {
  auto memory = std::make_unique<std::byte[]>(bytes);
  std::byte* const data = memory.get();
  std::lock_guard lock(mutex_);
  pinned_[data] = std::move(memory);
  pinned_bytes_[data] = bytes;
  return data;
}

void ProcessCuda::DropPinned(std::byte* memory) {
  std::lock_guard lock(mutex_);
  pinned_bytes_.erase(memory);
  if (pinned_.erase(memory) == 0) Violation("pinned memory is freed that was not allocated");
}

const ProcessCuda::File* ProcessCuda::Find(const std::map<std::byte*, File>& files, const std::byte* memory,
                                           size_t bytes) const {
  auto after = files.upper_bound(const_cast<std::byte*>(memory));
  if (after == files.begin()) return nullptr;
  const File& file = std::prev(after)->second;
  return memory + bytes <= file.data() + (file.bytes - kPage) ? &file : nullptr;
}

absl::StatusOr<bool> ProcessCuda::InDeviceMemory(const std::byte* memory) {
  std::lock_guard lock(mutex_);
  return Find(memory_, memory, 1) != nullptr;
}

absl::StatusOr<CudaAllocation> ProcessCuda::AllocationOf(const std::byte* memory) {
  std::lock_guard lock(mutex_);
  const File* const file = Find(memory_, memory, 1);
  if (file == nullptr) return absl::InternalError("cuMemGetAddressRange: invalid argument");
  return CudaAllocation{file->data(), file->bytes - kPage};
}

void ProcessCuda::RequireReachable(const std::byte* memory, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (Find(memory_, memory, bytes) != nullptr || Find(opened_, memory, bytes) != nullptr) return;
  const auto after = pinned_bytes_.upper_bound(const_cast<std::byte*>(memory));
  if (after != pinned_bytes_.begin()) {
    const auto& [data, size] = *std::prev(after);
    if (memory + bytes <= data + size) return;
  }
  Violation("a copy touches memory that is neither the device's nor pinned");
}

absl::Status ProcessCuda::Copy(std::byte* to, const std::byte* from, size_t bytes, CudaStream* stream) {
  Enqueue(stream, [this, to, from, bytes] {
    RequireReachable(to, bytes);
    RequireReachable(from, bytes);
    std::memcpy(to, from, bytes);
  });
  return absl::OkStatus();
}

absl::StatusOr<CudaIpcMemory> ProcessCuda::Share(const std::byte* memory) {
  std::lock_guard lock(mutex_);
  const File* const file = Find(memory_, memory, 1);
  if (file == nullptr) return absl::InternalError("cudaIpcGetMemHandle: invalid argument");
  const Handle handle{getpid(), file->descriptor, file->bytes};
  CudaIpcMemory shared;
  std::memcpy(shared.handle.data(), &handle, sizeof(handle));
  shared.offset = static_cast<uint64_t>(memory - file->data());
  return shared;
}

absl::StatusOr<std::byte*> ProcessCuda::Open(const CudaIpcMemory& memory) {
  Handle handle;
  std::memcpy(&handle, memory.handle.data(), sizeof(handle));
  if (handle.process == getpid()) return absl::InternalError("cudaIpcOpenMemHandle: invalid device context");
  const File file = OpenFile(handle);
  if (file.counters == nullptr) return absl::InternalError("cudaIpcOpenMemHandle: invalid resource handle");
  ++file.counters->openings;
  ++opened_in_all_;
  std::lock_guard lock(mutex_);
  opened_[file.data()] = file;
  return file.data();
}

void ProcessCuda::Close(std::byte* opened) {
  std::lock_guard lock(mutex_);
  const auto found = opened_.find(opened);
  if (found == opened_.end()) Violation("memory is closed that is not open");
  --found->second.counters->openings;
  DropFile(found->second);
  opened_.erase(found);
}

absl::StatusOr<CudaIpcEvent> ProcessCuda::Share(CudaEvent* handle) {
  std::lock_guard lock(mutex_);
  const Event& event = *events_.at(handle);
  if (!event.interprocess) return absl::InternalError("cudaIpcGetEventHandle: invalid argument");
  const Handle shared{getpid(), event.file.descriptor, event.file.bytes};
  CudaIpcEvent bytes = {};
  std::memcpy(bytes.data(), &shared, sizeof(shared));
  return bytes;
}

absl::StatusOr<CudaEvent*> ProcessCuda::Open(const CudaIpcEvent& bytes) {
  Handle shared;
  std::memcpy(&shared, bytes.data(), sizeof(shared));
  auto event = std::make_shared<Event>();
  event->file = OpenFile(shared);
  if (event->file.counters == nullptr) return absl::InternalError("cudaIpcOpenEventHandle: invalid resource handle");
  auto* const handle = reinterpret_cast<CudaEvent*>(event.get());
  std::lock_guard lock(mutex_);
  events_[handle] = std::move(event);
  return handle;
}

}  // namespace rondo::testing
