#include "worker/transport/device/staged_copies.h"

#include <utility>

#include "base/check.h"

namespace rondo {

StagedCopies::~StagedCopies() { Abort(); }

absl::Status StagedCopies::Begin() {
  absl::StatusOr<CudaStream*> stream = cuda_.MakeStream();
  if (!stream.ok()) return stream.status();
  stream_ = *stream;
  return absl::OkStatus();
}

std::byte* StagedCopies::Reuse(Buffers& buffers, size_t bytes) {
  auto best = buffers.end();
  for (auto it = buffers.begin(); it != buffers.end(); ++it) {
    if (it->second.taken || it->second.size < bytes) continue;
    if (best == buffers.end() || it->second.size < best->second.size) best = it;
  }
  if (best == buffers.end()) return nullptr;
  best->second.taken = true;
  return best->first;
}

absl::StatusOr<std::byte*> StagedCopies::TakePinned(size_t bytes) {
  if (std::byte* buffer = Reuse(pinned_, bytes)) return buffer;
  absl::StatusOr<std::byte*> buffer = cuda_.MakePinned(bytes);
  if (buffer.ok()) pinned_[*buffer] = {bytes, true};
  return buffer;
}

void StagedCopies::GivePinned(std::byte* buffer) {
  const auto found = pinned_.find(buffer);
  if (found != pinned_.end()) found->second.taken = false;
}

absl::StatusOr<std::byte*> StagedCopies::TakeDevice(size_t bytes) {
  if (std::byte* buffer = Reuse(device_, bytes)) return buffer;
  absl::StatusOr<std::byte*> buffer = cuda_.MakeMemory(bytes);
  if (buffer.ok()) device_[*buffer] = {bytes, true};
  return buffer;
}

void StagedCopies::GiveDevice(std::byte* buffer) {
  const auto found = device_.find(buffer);
  if (found != device_.end()) found->second.taken = false;
}

absl::Status StagedCopies::After(CudaEvent* event) {
  return event == nullptr ? absl::OkStatus() : cuda_.WaitFor(stream_, event);
}

absl::Status StagedCopies::Copy(std::byte* to, const std::byte* from, size_t bytes, Then then) {
  if (free_events_.empty()) {
    const absl::StatusOr<CudaEvent*> event = cuda_.MakeEvent(false);
    if (!event.ok()) return event.status();
    free_events_.push_back(*event);
  }
  CudaEvent* const event = free_events_.back();
  if (absl::Status copied = cuda_.Copy(to, from, bytes, stream_); !copied.ok()) return copied;
  if (absl::Status recorded = cuda_.Record(event, stream_); !recorded.ok()) return recorded;
  free_events_.pop_back();
  flights_.push_back({event, std::move(then)});
  return absl::OkStatus();
}

absl::StatusOr<bool> StagedCopies::Poll() {
  bool moved = false;
  while (!flights_.empty()) {
    const absl::StatusOr<bool> reached = cuda_.Reached(flights_.front().event);
    if (!reached.ok()) return reached.status();
    if (!*reached) break;
    const Flight flight = std::move(flights_.front());
    flights_.pop_front();
    free_events_.push_back(flight.event);
    moved = true;
    if (absl::Status done = flight.then(); !done.ok()) return done;
  }
  return moved;
}

void StagedCopies::Abort() {
  for (Flight& flight : flights_) free_events_.push_back(flight.event);
  flights_.clear();
  if (stream_ != nullptr) cuda_.Drop(std::exchange(stream_, nullptr));
  for (CudaEvent* event : free_events_) cuda_.Drop(event);
  free_events_.clear();
  // Freeing waits for the device, so for copies that are still on the stream.
  for (const auto& [memory, buffer] : pinned_) cuda_.DropPinned(memory);
  for (const auto& [memory, buffer] : device_) cuda_.DropMemory(memory);
  pinned_.clear();
  device_.clear();
}

}  // namespace rondo
