#include "tests/testing/simt/shared_memory.h"

#include <algorithm>
#include <cstring>

#include "tests/testing/simt/cta.h"

namespace rondo::simt {
namespace {

constexpr size_t kBaseAlignment = 1024;  // what 128-byte swizzled TMA tiles ask for
constexpr uint32_t kGranule = 4;
constexpr uint32_t kProxyGranule = 16;
constexpr size_t kMostThreads = 1024;

int16_t MyWarp() { return static_cast<int16_t>(ThisCta().self().index / kWarp); }
// From 1 on, so that 0 can mean never.
uint32_t MyEpoch() { return ThisCta().self().epoch + 1; }

}  // namespace

SharedMemory::SharedMemory(size_t bytes)
    : storage_(bytes + kBaseAlignment),
      bytes_(bytes),
      granules_((bytes + kGranule - 1) / kGranule),
      writers_((bytes + kProxyGranule - 1) / kProxyGranule),
      fences_(kMostThreads) {
  const auto begin = reinterpret_cast<uintptr_t>(storage_.data());
  base_ = storage_.data() + ((begin + kBaseAlignment - 1) / kBaseAlignment * kBaseAlignment - begin);
}

void SharedMemory::Poison() {
  std::memset(base_, 0xff, bytes_);
  std::fill(granules_.begin(), granules_.end(), Granule{});
  std::fill(writers_.begin(), writers_.end(), Writer{});
  detect_races_ = true;
}

void SharedMemory::Poison(uint32_t address, size_t bytes) { std::memset(base_ + address, 0xff, bytes); }

unsigned char* SharedMemory::At(uint32_t address, size_t bytes, size_t alignment, CallSite site) {
  if (address + bytes > bytes_) {
    ThisCta().Fail("shared address " + std::to_string(address) + " + " + std::to_string(bytes) + " is beyond the " +
                       std::to_string(bytes_) + " bytes of the launch",
                   site);
  }
  if (address % alignment != 0) {
    ThisCta().Fail("shared address " + std::to_string(address) + " is not a multiple of " + std::to_string(alignment),
                   site);
  }
  return base_ + address;
}

unsigned char* SharedMemory::Read(uint32_t address, size_t bytes, size_t alignment, CallSite site) {
  unsigned char* p = At(address, bytes, alignment, site);
  if (detect_races_) NoteRead(address, bytes, site);
  return p;
}

unsigned char* SharedMemory::Write(uint32_t address, size_t bytes, size_t alignment, CallSite site) {
  unsigned char* p = At(address, bytes, alignment, site);
  if (detect_races_) NoteWrite(address, bytes, site);
  NoteWriter(address, bytes);
  return p;
}

unsigned char* SharedMemory::AtAsync(uint32_t address, size_t bytes, size_t alignment, CallSite site) {
  unsigned char* p = At(address, bytes, alignment, site);
  for (size_t i = address / kProxyGranule; i <= (address + bytes - 1) / kProxyGranule; ++i) {
    const Writer& writer = writers_[i];
    if (writer.thread < 0 || fences_[writer.thread] > writer.fences) continue;
    ThisCta().Fail("shared address " + std::to_string(i * kProxyGranule) + " was written by thread " +
                       std::to_string(writer.thread) + " without a fence.proxy.async since",
                   site);
  }
  return p;
}

void SharedMemory::FenceAsync() { ++fences_[ThisCta().self().index]; }

void SharedMemory::NoteWriter(uint32_t address, size_t bytes) {
  const int thread = ThisCta().self().index;
  for (size_t i = address / kProxyGranule; i <= (address + bytes - 1) / kProxyGranule; ++i) {
    writers_[i] = {thread, fences_[thread]};
  }
}

void SharedMemory::NoteRead(uint32_t address, size_t bytes, CallSite site) {
  const int16_t warp = MyWarp();
  const uint32_t epoch = MyEpoch();
  for (uint32_t i = address / kGranule; i <= (address + bytes - 1) / kGranule; ++i) {
    Granule& g = granules_[i];
    if (g.write_epoch == epoch && g.write_warp != warp)
      Race(i * kGranule, "read", site, "written", g.write_warp, g.write_site);
    g.read_warp = g.read_epoch == epoch && g.read_warp != warp ? kSeveral : warp;
    g.read_epoch = epoch;
    g.read_site = site;
  }
}

void SharedMemory::NoteWrite(uint32_t address, size_t bytes, CallSite site) {
  const int16_t warp = MyWarp();
  const uint32_t epoch = MyEpoch();
  for (uint32_t i = address / kGranule; i <= (address + bytes - 1) / kGranule; ++i) {
    Granule& g = granules_[i];
    if (g.write_epoch == epoch && g.write_warp != warp)
      Race(i * kGranule, "write", site, "written", g.write_warp, g.write_site);
    if (g.read_epoch == epoch && g.read_warp != warp)
      Race(i * kGranule, "write", site, "read", g.read_warp, g.read_site);
    g.write_warp = warp;
    g.write_epoch = epoch;
    g.write_site = site;
  }
}

void SharedMemory::Race(uint32_t address, const char* now, CallSite site, const char* before, int warp,
                        CallSite other) {
  ThisCta().Fail("race: " + std::string(now) + " of shared address " + std::to_string(address) + ", " + before +
                     (warp == kSeveral ? " by several warps" : " by warp " + std::to_string(warp)) +
                     " since the last barrier, in " + other.ToString(),
                 site);
}

void CheckGlobal(const void* address, size_t bytes, size_t alignment, bool write, CallSite site) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  Cta& cta = ThisCta();
  if (begin % alignment != 0) cta.Fail("global address is not a multiple of " + std::to_string(alignment), site);
  const auto& memory = cta.options().memory;
  if (memory.empty()) return;
  std::string nearest;
  for (const GlobalRange& range : memory) {
    const auto first = reinterpret_cast<uintptr_t>(range.begin);
    if (begin >= first && begin + bytes <= first + range.bytes) {
      if (write && !range.writable) cta.Fail(std::string("write to ") + range.name + ", which is input", site);
      return;
    }
    if (begin >= first && begin <= first + range.bytes + 4096) {
      nearest =
          ": byte " + std::to_string(begin - first) + " of the " + std::to_string(range.bytes) + " of " + range.name;
    }
  }
  cta.Fail("global address out of range" + nearest, site);
}

}  // namespace rondo::simt
