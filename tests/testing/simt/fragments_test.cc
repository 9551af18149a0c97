// ldmatrix and mma.sync of the emulator against the layouts of the PTX ISA, element by element.
#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "tests/testing/simt/launch.h"
#include "tests/testing/simt/small_floats.h"
#include "tests/testing/simt/tables.h"

namespace rondo {
namespace {

struct Place {
  int lane;
  int element;
};

// A table of "lane.element" as [row][column].
template <int kRows>
std::vector<std::vector<Place>> Parse(const char* const (&table)[kRows]) {
  std::vector<std::vector<Place>> places;
  for (const char* line : table) {
    std::istringstream words(line);
    std::vector<Place> row;
    int lane, element;
    char dot;
    while (words >> lane >> dot >> element) row.push_back({lane, element});
    places.push_back(row);
  }
  return places;
}

void ExpectLoad(bool transposed) {
  // Matrix i at 128 i, its rows side by side; element (row, column) is 100 row + column + 1000 i as a plain integer.
  std::vector<std::array<uint32_t, 4>> got(32);
  const auto kernel = [&] {
    const int lane = gpu::LaneIndex();
    for (int i = lane; i < 256; i += 32) {
      gpu::StoreShared(2 * i, static_cast<uint16_t>(1000 * (i / 64) + 100 * (i / 8 % 8) + i % 8));
    }
    gpu::WarpSync();
    uint32_t r[4];
    if (transposed) {
      gpu::LoadMatrix4Transposed(r, 16 * lane);
    } else {
      gpu::LoadMatrix4(r, 16 * lane);
    }
    for (int i = 0; i < 4; ++i) got[lane][i] = r[i];
  };
  ASSERT_EQ(simt::Launch(1, 32, 512, {}, kernel).fault, "");
  const auto table = transposed ? Parse(simt::kTableLoadTransposed) : Parse(simt::kTableLoad);
  for (int matrix = 0; matrix < 4; ++matrix) {
    for (int row = 0; row < 8; ++row) {
      for (int column = 0; column < 8; ++column) {
        const Place place = table[row][column];
        const uint32_t element = got[place.lane][matrix] >> (16 * place.element) & 0xffff;
        EXPECT_EQ(element, static_cast<uint32_t>(1000 * matrix + 100 * row + column));
      }
    }
  }
}

TEST(Fragments, LoadMatrix) { ExpectLoad(false); }
TEST(Fragments, LoadMatrixTransposed) { ExpectLoad(true); }

// Small integers, so that every sum is exact in either type.
float ValueA(int m, int k) { return static_cast<float>((3 * m + 5 * k) % 11 - 5); }
float ValueB(int k, int n) { return static_cast<float>((7 * k + 2 * n) % 13 - 6); }
float ValueC(int m, int n) { return static_cast<float>(10 * m - n); }

template <class Element>
void ExpectProduct(uint16_t (*round)(float)) {
  uint32_t a[32][4] = {}, b[32][2] = {};
  float d[32][4] = {};
  const auto table_a = Parse(simt::kTableA), table_b = Parse(simt::kTableB), table_c = Parse(simt::kTableC);
  for (int m = 0; m < 16; ++m) {
    for (int k = 0; k < 16; ++k) {
      const Place at = table_a[m][k];
      a[at.lane][at.element / 2] |= static_cast<uint32_t>(round(ValueA(m, k))) << (16 * (at.element % 2));
    }
    for (int n = 0; n < 8; ++n) {
      const Place at = table_b[m][n];
      b[at.lane][at.element / 2] |= static_cast<uint32_t>(round(ValueB(m, n))) << (16 * (at.element % 2));
      d[table_c[m][n].lane][table_c[m][n].element] = ValueC(m, n);
    }
  }
  const auto kernel = [&] {
    const int lane = gpu::LaneIndex();
    gpu::MultiplyAdd<Element>(d[lane], a[lane], b[lane][0], b[lane][1]);
  };
  ASSERT_EQ(simt::Launch(1, 32, 0, {}, kernel).fault, "");
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 8; ++n) {
      float expected = ValueC(m, n);
      for (int k = 0; k < 16; ++k) expected += ValueA(m, k) * ValueB(k, n);
      EXPECT_EQ(d[table_c[m][n].lane][table_c[m][n].element], expected) << m << " " << n;
    }
  }
}

TEST(Fragments, MultiplyAddBf16) { ExpectProduct<gpu::Bf16>(simt::FloatToBf16); }
TEST(Fragments, MultiplyAddFp16) { ExpectProduct<gpu::Fp16>(simt::FloatToFp16); }

TEST(Fragments, BankConflictsAreCounted) {
  // Rows 128 bytes apart all lie in the same banks: seven passes more for each matrix. Rows 16 bytes apart: none.
  const auto load = [](uint32_t pitch) {
    return simt::Launch(1, 32, 32 * 128, {},
                        [=] {
                          uint32_t r[4];
                          gpu::LoadMatrix4(r, pitch * static_cast<uint32_t>(gpu::LaneIndex()));
                        })
        .counters;
  };
  EXPECT_EQ(load(128).bank_conflicts, 28u);
  EXPECT_EQ(load(16).bank_conflicts, 0u);
  EXPECT_EQ(load(16).ldmatrix, 1u);
}

TEST(SmallFloats, EveryHalfSurvivesTheWayThroughFloat) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float f = simt::Fp16ToFloat(static_cast<uint16_t>(h));
    const float b = simt::Bf16ToFloat(static_cast<uint16_t>(h));
    if (f == f) {
      EXPECT_EQ(simt::FloatToFp16(f), h);
    }
    if (b == b) {
      EXPECT_EQ(simt::FloatToBf16(b), h);
    }
  }
}

TEST(SmallFloats, HalvesRoundToNearestEven) {
  EXPECT_EQ(simt::FloatToFp16(1.0f + 0x1p-11f), 0x3c00);      // tie to even
  EXPECT_EQ(simt::FloatToFp16(1.0f + 3 * 0x1p-11f), 0x3c02);  // tie to even, up
  EXPECT_EQ(simt::FloatToFp16(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);
  EXPECT_EQ(simt::FloatToFp16(65519.0f), 0x7bff);
  EXPECT_EQ(simt::FloatToFp16(65520.0f), 0x7c00);
  EXPECT_EQ(simt::FloatToFp16(0x1p-25f), 0);
  EXPECT_EQ(simt::FloatToFp16(3 * 0x1p-25f), 2);
  EXPECT_EQ(simt::FloatToBf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(simt::FloatToBf16(1.0f + 3 * 0x1p-8f), 0x3f82);
}

}  // namespace
}  // namespace rondo
