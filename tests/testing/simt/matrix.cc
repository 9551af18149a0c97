#include "tests/testing/simt/matrix.h"

#include <bit>
#include <cstring>

#include "tests/testing/simt/cta.h"
#include "tests/testing/simt/small_floats.h"

namespace rondo::simt {
namespace {

uint16_t Low(uint32_t pair) { return static_cast<uint16_t>(pair); }
uint16_t High(uint32_t pair) { return static_cast<uint16_t>(pair >> 16); }

// Shared memory has 32 banks of 4 bytes: eight 16-byte rows go through in one pass if they lie in different eighths of
// a 128-byte line.
int ExtraPasses(const uint32_t (&rows)[8]) {
  int uses[8] = {};
  int most = 0;
  for (const uint32_t row : rows) most = std::max(most, ++uses[row / 16 % 8]);
  return most - 1;
}

struct LoadArgument {
  uint32_t address;
  uint32_t* registers;
};

void LoadAll(LoadArgument** lanes, bool transposed, CallSite site) {
  Cta& cta = ThisCta();
  ++cta.counters().ldmatrix;
  for (int matrix = 0; matrix < 4; ++matrix) {
    uint32_t rows[8];
    uint16_t elements[8][8];
    for (int row = 0; row < 8; ++row) {
      rows[row] = lanes[8 * matrix + row]->address;
      std::memcpy(elements[row], cta.shared().Read(rows[row], 16, 16, site), 16);
    }
    cta.counters().bank_conflicts += static_cast<uint64_t>(ExtraPasses(rows));
    for (int lane = 0; lane < kWarp; ++lane) {
      const int group = lane / 4;
      const int pair = lane % 4 * 2;
      const uint16_t low = transposed ? elements[pair][group] : elements[group][pair];
      const uint16_t high = transposed ? elements[pair + 1][group] : elements[group][pair + 1];
      lanes[lane]->registers[matrix] = static_cast<uint32_t>(high) << 16 | low;
    }
  }
}

struct MultiplyArgument {
  float* d;
  const uint32_t* a;
  uint32_t b[2];
};

void MultiplyAll(MultiplyArgument** lanes, Half type) {
  ++ThisCta().counters().mma;
  float a[16][16];
  float b[16][8];
  float d[16][8];
  for (int lane = 0; lane < kWarp; ++lane) {
    const int group = lane / 4;
    const int pair = lane % 4 * 2;
    const MultiplyArgument& x = *lanes[lane];
    for (int i = 0; i < 4; ++i) {
      const int row = group + (i % 2) * 8;
      const int k = pair + (i / 2) * 8;
      a[row][k] = ToFloat(type, Low(x.a[i]));
      a[row][k + 1] = ToFloat(type, High(x.a[i]));
      d[group + (i / 2) * 8][pair + i % 2] = x.d[i];
    }
    for (int i = 0; i < 2; ++i) {
      b[pair + i * 8][group] = ToFloat(type, Low(x.b[i]));
      b[pair + i * 8 + 1][group] = ToFloat(type, High(x.b[i]));
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) d[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    for (int i = 0; i < 4; ++i) lanes[lane]->d[i] = d[lane / 4 + (i / 2) * 8][lane % 4 * 2 + i % 2];
  }
}

}  // namespace

float ToFloat(Half type, uint16_t bits) { return type == Half::kBf16 ? Bf16ToFloat(bits) : Fp16ToFloat(bits); }

void LoadMatrix4(uint32_t (&registers)[4], uint32_t address, bool transposed, CallSite site) {
  LoadArgument mine{address, registers};
  WarpCollective(&mine, site, [&](LoadArgument** lanes) { LoadAll(lanes, transposed, site); });
}

void MultiplyAdd(Half type, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, CallSite site) {
  MultiplyArgument mine{d, a, {b0, b1}};
  WarpCollective(&mine, site, [&](MultiplyArgument** lanes) { MultiplyAll(lanes, type); });
}

}  // namespace rondo::simt
