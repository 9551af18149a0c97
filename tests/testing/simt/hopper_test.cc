// mbarriers, TMA with 128-byte swizzle and wgmma of the emulator: layouts by the PTX ISA's tables, and mistakes found.
#include "kernels/cuda/device/hopper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <sstream>
#include <vector>

#include "tests/testing/simt/launch.h"
#include "tests/testing/simt/tables.h"

namespace rondo {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// In which chunk of its line a chunk lies.
int SwizzledChunk(int line, int chunk) {
  std::istringstream words(simt::kTableSwizzle[line % 8]);
  int at = 0;
  for (int i = 0; i <= chunk; ++i) words >> at;
  return at;
}

// Byte offset of element (line, x) of a tile of 64-element lines.
uint32_t SwizzledOffset(int line, int x) {
  return static_cast<uint32_t>(line * 128 + SwizzledChunk(line, x / 8) * 16 + x % 8 * 2);
}

TEST(Hopper, TmaSwizzlesAndFillsWithZeros) {
  // A tensor [3][20][70] whose lines are 72 long, as 16-byte strides want; the box at (64, 5, 1) of 64 x 16 x 1 runs
  // over both ends.
  std::vector<uint16_t> tensor(3 * 20 * 72);
  for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<uint16_t>(i + 1);
  const gpu::TensorMap map{tensor.data(), 3, {70, 20, 3}, {1, 72, 1440}, {64, 16, 1}};
  for (const simt::Options& options : simt::AllSchedules(2)) {
    std::vector<uint16_t> tile(64 * 16);
    const auto kernel = [&] {
      if (gpu::ThreadIndex() == 0) {
        gpu::MbarrierInit(4096, 1);
        gpu::MbarrierArriveExpect(4096, 2048);
        gpu::TmaLoad3(1024, map, 64, 5, 1, 4096);
      }
      gpu::CtaSync();
      gpu::MbarrierWait(4096, 0);
      if (gpu::ThreadIndex() == 40) {
        for (int y = 0; y < 16; ++y) {
          for (int x = 0; x < 64; ++x) tile[y * 64 + x] = gpu::LoadShared<uint16_t>(1024 + SwizzledOffset(y, x));
        }
      }
    };
    ASSERT_EQ(simt::Launch(1, 64, 5120, options, kernel).fault, "");
    for (int y = 0; y < 16; ++y) {
      for (int x = 0; x < 64; ++x) {
        const bool inside = 64 + x < 70 && 5 + y < 20;
        EXPECT_EQ(tile[y * 64 + x], inside ? 1440 + (5 + y) * 72 + 64 + x + 1 : 0);
      }
    }
  }
}

TEST(Hopper, TmaBytesAreNaNUntilTheyLand) {
  alignas(16) static const uint16_t line[64] = {};
  const gpu::TensorMap map{line, 2, {64, 1, 1}, {1, 64, 64}, {64, 1, 1}};
  float early = 0;
  const auto kernel = [&] {
    if (gpu::ThreadIndex() != 0) return;
    gpu::MbarrierInit(1024, 1);
    gpu::MbarrierArriveExpect(1024, 128);
    gpu::TmaLoad2(0, map, 0, 0, 1024);
    early = gpu::LoadShared<float>(64);
    gpu::MbarrierWait(1024, 0);
  };
  EXPECT_EQ(simt::Launch(1, 32, 2048, {}, kernel).fault, "");
  EXPECT_TRUE(std::isnan(early));
}

TEST(Hopper, TmaMistakesAreReported) {
  static const uint16_t line[64] = {};
  const auto load = [](gpu::Shared to, uint32_t box) {
    return simt::Launch(1, 32, 4096, {},
                        [=] {
                          gpu::MbarrierInit(2048, 1);
                          gpu::TmaLoad2(to, {line, 2, {64, 1, 1}, {1, 64, 64}, {box, 1, 1}}, 0, 0, 2048);
                        })
        .fault;
  };
  EXPECT_THAT(load(512, 64), HasSubstr("shared address 512 is not a multiple of 1024"));
  EXPECT_THAT(load(0, 32), HasSubstr("lines must have 128 bytes"));
}

TEST(Hopper, MbarrierMistakesAreReported) {
  EXPECT_THAT(simt::Launch(1, 32, 64, {}, [] { gpu::MbarrierArrive(0); }).fault,
              HasSubstr("no mbarrier at shared address 0"));
  const int line = __LINE__ + 4;
  const auto too_few = [] {
    if (gpu::ThreadIndex() == 0) gpu::MbarrierInit(0, 2);
    gpu::WarpSync();
    if (gpu::ThreadIndex() == 0) gpu::MbarrierArrive(0);
    gpu::MbarrierWait(0, 0);
  };
  EXPECT_THAT(simt::Launch(1, 32, 64, {}, too_few).fault,
              AllOf(HasSubstr("deadlock"),
                    HasSubstr("32 threads wait in MbarrierWait at hopper_test.cc:" + std::to_string(line + 1))));
}

uint64_t Describe(uint32_t start, uint32_t leading, uint32_t stride) {
  return uint64_t{start >> 4} | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 | uint64_t{1} << 62;
}

// Small integers: every sum is exact.
float ValueA(int m, int k) { return static_cast<float>((3 * m + 5 * k) % 11 - 5); }
float ValueB(int k, int n) { return static_cast<float>((7 * k + 2 * n) % 13 - 6); }

// Where the PTX ISA puts d[i] of a thread: kTableC for each warp's 16 rows and each 8 columns.
void ForEachOfD(int n, const std::function<void(int thread, int i, int row, int column)>& f) {
  for (int row = 0; row < 64; ++row) {
    std::istringstream words(simt::kTableC[row % 16]);
    for (int c = 0; c < 8; ++c) {
      int lane, element;
      char dot;
      words >> lane >> dot >> element;
      for (int column = c; column < n; column += 8) f(row / 16 * 32 + lane, column / 8 * 4 + element, row, column);
    }
  }
}

// A 64 x 16 at columns 32.. of a K-major tile of 64; B for n = 128 as two MN-major slabs of 64 x 16, or K-major.
void ExpectWgmma(bool a_in_registers, bool b_mn_major) {
  constexpr int kN = 128;
  constexpr int kSlab = 8192;  // bytes of 64 lines
  std::vector<std::array<float, kN / 2>> d(128);
  const auto kernel = [&] {
    const int thread = gpu::ThreadIndex();
    if (thread == 0) {
      for (int k = 0; k < 16; ++k) {
        for (int m = 0; m < 64; ++m) {
          gpu::StoreShared(SwizzledOffset(m, 32 + k), simt::FloatToBf16(ValueA(m, k)));
        }
        for (int n = 0; n < kN; ++n) {
          const uint32_t at = b_mn_major ? static_cast<uint32_t>(n / 64 * kSlab) + SwizzledOffset(k, n % 64)
                                         : SwizzledOffset(n, 32 + k);
          gpu::StoreShared(kSlab + at, simt::FloatToBf16(ValueB(k, n)));
        }
      }
      gpu::FenceProxyAsync();
    }
    gpu::CtaSync();
    const uint64_t b = b_mn_major ? Describe(kSlab, kSlab, 1024) : Describe(kSlab + 64, 16, 1024);
    float mine[kN / 8][4];
    for (int i = 0; i < kN / 2; ++i) mine[i / 4][i % 4] = 1;
    uint32_t a[4];
    gpu::WgmmaFence();
    if (a_in_registers) {
      for (int i = 0; i < 4; ++i) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
        const int k = thread % 4 * 2 + i / 2 * 8;
        a[i] = gpu::Pack<gpu::Bf16>(ValueA(row, k), ValueA(row, k + 1));
      }
      gpu::WgmmaRegisters<gpu::Bf16, kN>(mine, a, b, true);
      EXPECT_TRUE(std::isnan(mine[0][0]));
      gpu::WgmmaRegisters<gpu::Bf16, kN>(mine, a, b, true);  // chained: in flight on the same accumulators
    } else {
      gpu::WgmmaShared<gpu::Bf16, kN>(mine, Describe(64, 16, 1024), b, false);
    }
    gpu::WgmmaCommit();
    gpu::WgmmaWait<0>();
    for (int i = 0; i < kN / 2; ++i) d[thread][i] = mine[i / 4][i % 4];
  };
  for (const simt::Options& options : simt::AllSchedules(6)) {
    ASSERT_EQ(simt::Launch(1, 128, kSlab * 3, options, kernel).fault, "");
    ForEachOfD(kN, [&](int thread, int i, int row, int column) {
      float product = 0;
      for (int k = 0; k < 16; ++k) product += ValueA(row, k) * ValueB(k, column);
      ASSERT_EQ(d[thread][i], a_in_registers ? 1 + 2 * product : product) << row << " " << column;
    });
  }
}

TEST(Hopper, WgmmaFromSharedMemory) { ExpectWgmma(false, false); }
TEST(Hopper, WgmmaFromRegistersWithTransposedB) { ExpectWgmma(true, true); }

TEST(Hopper, UnfinishedAccumulatorIsNaN) {
  bool nan = false;
  const auto kernel = [&] {
    for (int i = gpu::ThreadIndex(); i < 4096; i += 128) gpu::StoreShared(4 * i, 0.0f);
    gpu::FenceProxyAsync();
    gpu::CtaSync();
    float d[8][4];
    gpu::WgmmaFence();
    gpu::WgmmaShared<gpu::Bf16, 64>(d, Describe(0, 16, 1024), Describe(8192, 16, 1024), false);
    gpu::WgmmaCommit();
    nan |= std::isnan(d[1][1]);
    gpu::WgmmaWait<0>();
    EXPECT_EQ(d[1][1], 0);
  };
  EXPECT_EQ(simt::Launch(1, 128, 16384, {.slow_tensor_core = true}, kernel).fault, "");
  EXPECT_TRUE(nan);
}

// A map over all of memory, of which the last two dimensions are an address: how the attention kernel finds pages.
TEST(Hopper, TmaOfFourDimensionsFromAnyAddress) {
  std::vector<uint16_t> rows(8 * 72 + 8);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint16_t>(i);
  const uint16_t* first = rows.data();
  while (reinterpret_cast<uintptr_t>(first) % 16 != 0) ++first;
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  gpu::TensorMap map{reinterpret_cast<const uint16_t*>(kMiB),
                     4,
                     {64, 8, 65536, uint64_t{1} << 31},
                     {1, 72, 8, kMiB / 2},
                     {64, 8, 1, 1}};
  const uint64_t units = (reinterpret_cast<uintptr_t>(first) - kMiB) / 16;
  const auto load = [&](const simt::GlobalRange& memory, int row) {
    simt::Options options;
    options.memory = {memory};
    uint16_t got = 0;
    const auto kernel = [&] {
      if (gpu::ThreadIndex() != 0) return;
      gpu::MbarrierInit(1024, 1);
      gpu::MbarrierArriveExpect(1024, 1024);
      gpu::TmaLoad4(0, map, 0, 0, static_cast<int>(units % 65536), static_cast<int>(units / 65536), 1024);
      gpu::MbarrierWait(1024, 0);
      got = gpu::LoadShared<uint16_t>(SwizzledOffset(row, 5));
    };
    const std::string fault = simt::Launch(1, 32, 2048, options, kernel).fault;
    return fault.empty() ? std::to_string(got) : fault;
  };
  const size_t bytes = (7 * 72 + 64) * 2;
  EXPECT_EQ(load({first, bytes, false, "rows"}, 3), std::to_string(first[3 * 72 + 5]));
  EXPECT_THAT(load({first, bytes - 2, false, "rows"}, 3), HasSubstr("out of range"));
}

TEST(Hopper, CopiesLandWhenNobodyElseCanRun) {
  alignas(16) static const uint16_t line[64] = {};
  const gpu::TensorMap map{line, 2, {64, 1}, {1, 64}, {64, 1}};
  float late = 0;
  const auto kernel = [&] {
    if (gpu::ThreadIndex() == 0) {
      gpu::MbarrierInit(1024, 1);
      gpu::MbarrierArriveExpect(1024, 128);
      gpu::TmaLoad2(0, map, 0, 0, 1024);
    }
    for (int i = 0; i < 1000; ++i) gpu::CtaSync();
    if (gpu::ThreadIndex() == 40) late = gpu::LoadShared<float>(64);
    gpu::MbarrierWait(1024, 0);
  };
  EXPECT_EQ(simt::Launch(1, 64, 2048, {.slow_copies = true}, kernel).fault, "");
  EXPECT_TRUE(std::isnan(late));
}

// What threads write is seen by the tensor core and TMA only after the writer's own fence.
TEST(Hopper, WritesWithoutProxyFenceAreReported) {
  enum class Fence { kNone, kByAnother, kBefore, kAfter };
  const auto multiply = [](Fence fence) {
    return simt::Launch(1, 128, 16384, {},
                        [=] {
                          if (gpu::ThreadIndex() == 7 && fence == Fence::kBefore) gpu::FenceProxyAsync();
                          if (gpu::ThreadIndex() == 7) gpu::StoreShared(8192 + 128, 0.0f);
                          if (gpu::ThreadIndex() == 7 && fence == Fence::kAfter) gpu::FenceProxyAsync();
                          if (gpu::ThreadIndex() == 8 && fence == Fence::kByAnother) gpu::FenceProxyAsync();
                          gpu::CtaSync();
                          float d[8][4];
                          gpu::WgmmaFence();
                          gpu::WgmmaShared<gpu::Bf16, 64>(d, Describe(0, 16, 1024), Describe(8192, 16, 1024), false);
                          gpu::WgmmaCommit();
                          gpu::WgmmaWait<0>();
                        })
        .fault;
  };
  EXPECT_EQ(multiply(Fence::kAfter), "");
  for (const Fence fence : {Fence::kNone, Fence::kByAnother, Fence::kBefore}) {
    EXPECT_THAT(multiply(fence), HasSubstr("written by thread 7 without a fence.proxy.async since"));
  }
}

TEST(Hopper, RegistersOfAAreReadWhenTheProductRuns) {
  const auto kernel = [] {
    for (int i = gpu::ThreadIndex(); i < 2048; i += 128) gpu::StoreShared(4 * i, 0x3f803f80u);  // ones
    gpu::FenceProxyAsync();
    gpu::CtaSync();
    float d[8][4];
    uint32_t a[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
    gpu::WgmmaFence();
    gpu::WgmmaRegisters<gpu::Bf16, 64>(d, a, Describe(0, 8192, 1024), false);
    gpu::WgmmaCommit();
    for (uint32_t& pair : a) pair = 0;  // too early
    gpu::WgmmaWait<0>();
    EXPECT_EQ(d[0][0], 0);
  };
  EXPECT_EQ(simt::Launch(1, 128, 8192, {.slow_tensor_core = true}, kernel).fault, "");
}

TEST(Hopper, WgmmaMistakesAreReported) {
  const auto unfenced = [](bool again) {
    return simt::Launch(1, 128, 16384, {},
                        [=] {
                          float d[8][4];
                          for (int i = 0; i < 2; ++i) {
                            if (i == 0 ? again : !again) gpu::WgmmaFence();
                            gpu::WgmmaShared<gpu::Bf16, 64>(d, Describe(0, 16, 1024), Describe(8192, 16, 1024), false);
                            gpu::WgmmaCommit();
                            gpu::WgmmaWait<0>();
                          }
                        })
        .fault;
  };
  EXPECT_THAT(unfenced(false), HasSubstr("no WgmmaFence since"));
  EXPECT_THAT(unfenced(true), HasSubstr("no WgmmaFence since"));

  const auto kernel = [](uint64_t a, uint64_t b) {
    return simt::Launch(1, 128, 16384, {},
                        [=] {
                          float d[8][4];
                          gpu::WgmmaFence();
                          gpu::WgmmaShared<gpu::Bf16, 64>(d, a, gpu::ThreadIndex() == 5 ? b + 1 : b, false);
                          gpu::WgmmaCommit();
                          gpu::WgmmaWait<0>();
                        })
        .fault;
  };
  EXPECT_THAT(kernel(Describe(0, 16, 1024), Describe(0, 16, 1024)),
              HasSubstr("threads 5 and 0 of the warpgroup disagree"));
}

}  // namespace
}  // namespace rondo
