#include "tests/testing/simt/tma.h"

#include <algorithm>
#include <cstring>

#include "tests/testing/simt/cta.h"
#include "tests/testing/simt/mbarrier.h"

namespace rondo::simt {
namespace {

constexpr uint32_t kLineBytes = 128;
constexpr uint32_t kSwizzleAtomBytes = 1024;  // eight lines; tiles begin at multiples

uint32_t Box(const TensorMap& map, int i) { return i < map.dimensions ? map.box[i] : 1; }

// The part of a box's line that lies inside of the tensor: `count` elements from `first` on, at `memory`. A map's base
// need not be memory: only what is read must be.
struct Line {
  uint32_t first = 0, count = 0;
  const uint16_t* memory = nullptr;
};

Line LineOf(const TensorMap& map, const std::array<int64_t, 4>& at) {
  int64_t offset = 0;
  for (int i = 1; i < map.dimensions; ++i) {
    if (at[i] < 0 || static_cast<uint64_t>(at[i]) >= map.size[i]) return {};
    offset += at[i] * static_cast<int64_t>(map.stride[i]);
  }
  const int64_t begin = std::max<int64_t>(at[0], 0);
  const int64_t end = std::min<int64_t>(at[0] + map.box[0], static_cast<int64_t>(map.size[0]));
  if (begin >= end) return {};
  const auto address = reinterpret_cast<uintptr_t>(map.base) + static_cast<uintptr_t>((offset + begin) * 2);
  return {static_cast<uint32_t>(begin - at[0]), static_cast<uint32_t>(end - begin),
          reinterpret_cast<const uint16_t*>(address)};
}

// Calls f(line) for the lines of a box, in the order in which they lie in shared memory.
template <class F>
void ForEachLine(const TensorMap& map, const std::array<int, 4>& c, F f) {
  for (uint32_t w = 0; w < Box(map, 3); ++w) {
    for (uint32_t z = 0; z < Box(map, 2); ++z) {
      for (uint32_t y = 0; y < Box(map, 1); ++y) {
        f(LineOf(map, {c[0], c[1] + int64_t{y}, c[2] + int64_t{z}, c[3] + int64_t{w}}));
      }
    }
  }
}

void Land(uint32_t destination, const TensorMap& map, const std::array<int, 4>& coordinates, CallSite site) {
  uint32_t to = destination;
  ForEachLine(map, coordinates, [&](const Line& line) {
    for (uint32_t x = 0; x < map.box[0]; ++x, to += 2) {
      const bool inside = x >= line.first && x < line.first + line.count;
      const uint16_t element = inside ? line.memory[x - line.first] : 0;
      std::memcpy(ThisCta().shared().At(Swizzle128(to), 2, 2, site), &element, 2);
    }
  });
}

}  // namespace

void TmaLoad(uint32_t destination, const TensorMap& map, std::array<int, 4> coordinates, uint32_t mbarrier,
             CallSite site) {
  Cta& cta = ThisCta();
  if (map.box[0] * 2 != kLineBytes) cta.Fail("TMA: with 128-byte swizzle the box's lines must have 128 bytes", site);
  const uint32_t bytes = kLineBytes * Box(map, 1) * Box(map, 2) * Box(map, 3);
  cta.shared().AtAsync(destination, bytes, kSwizzleAtomBytes, site);
  ForEachLine(map, coordinates, [&](const Line& line) {
    if (line.count > 0) CheckGlobal(line.memory, line.count * 2, line.first == 0 ? 16 : 2, false, site);
  });
  cta.shared().Poison(destination, bytes);
  cta.counters().copied_bytes += bytes;
  cta.Enqueue(
      [=] {
        Land(destination, map, coordinates, site);
        MbarrierComplete(mbarrier, bytes, site);
      },
      cta.options().slow_copies ? Delay::kMost : Delay::kNone);
}

}  // namespace rondo::simt
