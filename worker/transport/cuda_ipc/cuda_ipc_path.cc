#include "worker/transport/cuda_ipc/cuda_ipc_path.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace rondo {

struct CudaIpcPath::Note {
  uint64_t process = 0;
  uint64_t address = 0;
  uint64_t event_address = 0;
  uint64_t offset = 0;
  std::array<uint8_t, 64> memory = {};
  CudaIpcEvent event = {};
};

CudaIpcPath::CudaIpcPath(CudaApi& cuda, int rank, std::vector<uint64_t> processes)
    : cuda_(cuda), rank_(rank), processes_(std::move(processes)), peers_(processes_.size()) {
  static_assert(sizeof(Note) == 160);
}

CudaIpcPath::~CudaIpcPath() {
  Abort();
  for (std::byte* memory : freed_) cuda_.DropMemory(memory);
}

absl::StatusOr<std::vector<std::byte>> CudaIpcPath::Offer(const DeviceMove& send, CudaEvent* after) {
  Note note;
  note.process = processes_[rank_];
  note.address = reinterpret_cast<uint64_t>(send.data);
  note.event_address = reinterpret_cast<uint64_t>(after);
  if (processes_[send.peer] != note.process) {
    const absl::StatusOr<CudaIpcMemory> memory = cuda_.Share(send.data);
    if (!memory.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("send to rank ", send.peer, " (", send.bytes,
                       " bytes): cuda-ipc sends from memory of cudaMalloc alone: ", memory.status().message()));
    }
    note.memory = memory->handle;
    note.offset = memory->offset;
    shared_.insert(send.data - memory->offset);
    if (after != nullptr) {
      const absl::StatusOr<CudaIpcEvent> event = cuda_.Share(after);
      if (!event.ok()) return event.status();
      note.event = *event;
    }
  }
  std::vector<std::byte> bytes(sizeof(note));
  std::memcpy(bytes.data(), &note, sizeof(note));
  return bytes;
}

absl::Status CudaIpcPath::Start(absl::Span<DeviceMove* const> moves, CudaEvent* after) {
  for (DeviceMove* move : moves) {
    if (move->send) continue;
    if (absl::Status started = StartOne(*move, after); !started.ok()) return started;
  }
  return absl::OkStatus();
}

absl::Status CudaIpcPath::StartOne(DeviceMove& move, CudaEvent* after) {
  Note note;
  if (move.note.size() != sizeof(note)) {
    return absl::InternalError(
        absl::StrCat("note from rank ", move.peer, ": expected ", sizeof(note), " bytes, got ", move.note.size()));
  }
  std::memcpy(&note, move.note.data(), sizeof(note));
  Peer& peer = peers_[move.peer];
  if (peer.stream == nullptr) {
    const absl::StatusOr<CudaStream*> stream = cuda_.MakeStream();
    if (!stream.ok()) return stream.status();
    peer.stream = *stream;
  }
  const absl::StatusOr<const std::byte*> from = Memory(note);
  if (!from.ok()) return from.status();
  const absl::StatusOr<CudaEvent*> ready = Event(note);
  if (!ready.ok()) return ready.status();
  for (CudaEvent* event : {after, *ready}) {
    if (event == nullptr) continue;
    if (absl::Status waits = cuda_.WaitFor(peer.stream, event); !waits.ok()) return waits;
  }
  if (absl::Status copied = cuda_.Copy(move.data, *from, move.bytes, peer.stream); !copied.ok()) return copied;
  const absl::StatusOr<CudaEvent*> done = TakeEvent();
  if (!done.ok()) return done.status();
  move.event = *done;
  peer.copies.push_back(&move);
  absl::Status recorded = cuda_.Record(move.event, peer.stream);
  if (recorded.ok()) move.state = DeviceMove::State::kQueued;
  return recorded;
}

absl::StatusOr<const std::byte*> CudaIpcPath::Memory(const Note& note) {
  if (note.process == processes_[rank_]) return reinterpret_cast<const std::byte*>(note.address);
  const auto found = opened_memory_.find(note.memory);
  if (found != opened_memory_.end()) return found->second + note.offset;
  const absl::StatusOr<std::byte*> opened = cuda_.Open(CudaIpcMemory{note.memory, note.offset});
  if (!opened.ok()) return opened.status();
  opened_memory_[note.memory] = *opened;
  return *opened + note.offset;
}

absl::StatusOr<CudaEvent*> CudaIpcPath::Event(const Note& note) {
  if (note.event_address == 0) return nullptr;
  if (note.process == processes_[rank_]) return reinterpret_cast<CudaEvent*>(note.event_address);
  const auto found = opened_events_.find(note.event);
  if (found != opened_events_.end()) return found->second;
  const absl::StatusOr<CudaEvent*> opened = cuda_.Open(note.event);
  if (opened.ok()) opened_events_[note.event] = *opened;
  return opened;
}

void CudaIpcPath::Taken(DeviceMove& send) { send.state = DeviceMove::State::kDone; }

absl::StatusOr<bool> CudaIpcPath::Poll() {
  free_events_.insert(free_events_.end(), retired_events_.begin(), retired_events_.end());
  retired_events_.clear();
  bool moved = false;
  for (Peer& peer : peers_) {
    while (!peer.copies.empty()) {
      DeviceMove& move = *peer.copies.front();
      const absl::StatusOr<bool> reached = cuda_.Reached(move.event);
      if (!reached.ok()) return reached;
      if (!*reached) break;
      move.state = DeviceMove::State::kDone;
      retired_events_.push_back(move.event);
      peer.copies.pop_front();
      moved = true;
    }
  }
  return moved;
}

absl::StatusOr<CudaEvent*> CudaIpcPath::TakeEvent() {
  if (free_events_.empty()) return cuda_.MakeEvent(false);
  CudaEvent* const event = free_events_.back();
  free_events_.pop_back();
  return event;
}

absl::StatusOr<std::byte*> CudaIpcPath::Allocate(size_t bytes, absl::Time) { return cuda_.MakeMemory(bytes); }
void CudaIpcPath::Free(std::byte* memory) { freed_.push_back(memory); }

absl::Status CudaIpcPath::Forget(std::byte* base, absl::Time) {
  if (!shared_.contains(base)) return absl::OkStatus();
  return absl::FailedPreconditionError("freeing device memory: other ranks have it open until the transport ends");
}

// After this the ranks say goodbye to each other, so when the path goes nobody has its memory open.
absl::StatusOr<bool> CudaIpcPath::Finish() {
  Abort();
  return true;
}

// Copies end by themselves: none waits for a rank, but for events of kernels that run already. Until then they read
// what is about to be closed.
void CudaIpcPath::WaitForCopies() {
  constexpr absl::Duration kLongest = absl::Seconds(5);  // a device that takes longer has failed
  const absl::Time deadline = absl::Now() + kLongest;
  for (const Peer& peer : peers_) {
    while (!peer.copies.empty() && absl::Now() < deadline) {
      const absl::StatusOr<bool> reached = cuda_.Reached(peer.copies.back()->event);
      if (!reached.ok() || *reached) break;
      absl::SleepFor(absl::Microseconds(50));
    }
  }
}

void CudaIpcPath::Abort() {
  WaitForCopies();
  for (Peer& peer : peers_) {
    for (DeviceMove* move : peer.copies) free_events_.push_back(move->event);
    peer.copies.clear();
    if (peer.stream != nullptr) cuda_.Drop(std::exchange(peer.stream, nullptr));
  }
  for (const auto& [handle, memory] : opened_memory_) cuda_.Close(memory);
  opened_memory_.clear();
  free_events_.insert(free_events_.end(), retired_events_.begin(), retired_events_.end());
  retired_events_.clear();
  for (const auto& [handle, event] : opened_events_) free_events_.push_back(event);
  opened_events_.clear();
  for (CudaEvent* event : free_events_) cuda_.Drop(event);
  free_events_.clear();
}

}  // namespace rondo
