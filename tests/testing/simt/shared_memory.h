// Shared memory of an emulated CTA: checked addresses, NaN where nothing was written, and a race detector. Used by
// every primitive that touches shared memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/testing/simt/options.h"

namespace rondo::simt {

// A shared address is an offset from the beginning of the CTA's shared memory, as on the GPU.
class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes);

  // All bytes 0xff: a NaN in every float type.
  void Poison();
  void Poison(uint32_t address, size_t bytes);

  // Checked access; ends the launch when out of range or not aligned to `alignment`.
  unsigned char* Read(uint32_t address, size_t bytes, size_t alignment, CallSite site);
  unsigned char* Write(uint32_t address, size_t bytes, size_t alignment, CallSite site);
  // The same without telling the race detector: for what mbarriers order.
  unsigned char* At(uint32_t address, size_t bytes, size_t alignment, CallSite site);

  // The same for the asynchronous proxy (TMA, wgmma), which sees what threads wrote only after they fenced it.
  unsigned char* AtAsync(uint32_t address, size_t bytes, size_t alignment, CallSite site);
  // fence.proxy.async of the running thread.
  void FenceAsync();

  // Between two CTA-wide barriers no warp may touch what another warp writes. Holds only where CTA-wide barriers are
  // the only order between warps; the first mbarrier or named barrier turns it off, and poison and schedules must do.
  void StopDetectingRaces() { detect_races_ = false; }

 private:
  struct Granule {                             // 4 bytes
    uint32_t write_epoch = 0, read_epoch = 0;  // 0: never
    int16_t write_warp = -1, read_warp = -1;   // kSeveral: more than one warp
    CallSite write_site, read_site;
  };
  static constexpr int16_t kSeveral = -2;
  void NoteRead(uint32_t address, size_t bytes, CallSite site);
  void NoteWrite(uint32_t address, size_t bytes, CallSite site);
  [[noreturn]] void Race(uint32_t address, const char* now, CallSite site, const char* before, int warp,
                         CallSite other);

  std::vector<unsigned char> storage_;
  unsigned char* base_;
  size_t bytes_;
  bool detect_races_ = true;
  std::vector<Granule> granules_;
  // Who wrote each 16 bytes last, not being TMA, and how often that thread had fenced by then.
  struct Writer {
    int thread = -1;
    uint32_t fences = 0;
  };
  void NoteWriter(uint32_t address, size_t bytes);
  std::vector<Writer> writers_;
  std::vector<uint32_t> fences_;  // by thread
};

// Ends the launch unless [address, address + bytes) lies in one of the launch's ranges of global memory.
void CheckGlobal(const void* address, size_t bytes, size_t alignment, bool write, CallSite site);

}  // namespace rondo::simt
