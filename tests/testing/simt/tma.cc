#include "tests/testing/simt/tma.h"

#include <cstring>

#include "tests/testing/simt/cta.h"
#include "tests/testing/simt/mbarrier.h"

namespace rondo::simt {
namespace {

constexpr uint32_t kLineBytes = 128;
constexpr uint32_t kSwizzleAtomBytes = 1024;  // eight lines; tiles begin at multiples

uint16_t ElementAt(const TensorMap& map, const std::array<int64_t, 3>& at) {
  int64_t offset = 0;
  for (int i = 0; i < map.dimensions; ++i) {
    if (at[i] < 0 || static_cast<uint64_t>(at[i]) >= map.size[i]) return 0;
    offset += at[i] * static_cast<int64_t>(i == 0 ? 1 : map.stride[i]);
  }
  return map.base[offset];
}

void Land(uint32_t destination, const TensorMap& map, std::array<int, 3> c, CallSite site) {
  const uint32_t depth = map.dimensions > 2 ? map.box[2] : 1;
  uint32_t to = destination;
  for (uint32_t z = 0; z < depth; ++z) {
    for (uint32_t y = 0; y < map.box[1]; ++y) {
      for (uint32_t x = 0; x < map.box[0]; ++x, to += 2) {
        const uint16_t element = ElementAt(map, {c[0] + int64_t{x}, c[1] + int64_t{y}, c[2] + int64_t{z}});
        std::memcpy(ThisCta().shared().At(Swizzle128(to), 2, 2, site), &element, 2);
      }
    }
  }
}

}  // namespace

void TmaLoad(uint32_t destination, const TensorMap& map, std::array<int, 3> coordinates, uint32_t mbarrier,
             CallSite site) {
  Cta& cta = ThisCta();
  if (map.box[0] * 2 != kLineBytes) cta.Fail("TMA: with 128-byte swizzle the box's lines must have 128 bytes", site);
  const uint32_t bytes = kLineBytes * map.box[1] * (map.dimensions > 2 ? map.box[2] : 1);
  cta.shared().At(destination, bytes, kSwizzleAtomBytes, site);
  cta.shared().Poison(destination, bytes);
  cta.counters().copied_bytes += bytes;
  cta.Enqueue(
      [=] {
        Land(destination, map, coordinates, site);
        MbarrierComplete(mbarrier, bytes, site);
      },
      cta.options().slow_copies);
}

}  // namespace rondo::simt
