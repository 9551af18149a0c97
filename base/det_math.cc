#include "base/det_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rondo {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// 2^n for -1022 <= n <= 1023.
double PowerOfTwo(int64_t n) { return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52); }

// e^t for |t| <= ln(2) / 2: Taylor to t^14; the next term is below 2e-19.
double ExpSmall(double t) {
  double sum = 1.0;
  // Horner from the inside: 1 + t/1 (1 + t/2 (1 + t/3 (...))).
  for (int i = 14; i >= 1; --i) sum = std::fma(sum, t / i, 1.0);
  return sum;
}

double Scale(double mantissa, double n) {
  if (n > 1023) {
    // The mantissa may be below 1 with n = 1024.
    return n > 1025 ? kInf : mantissa * 2.0 * PowerOfTwo(static_cast<int64_t>(n) - 1);
  }
  if (n < -1022) return 0.0;
  const double result = mantissa * PowerOfTwo(static_cast<int64_t>(n));
  return result < std::numeric_limits<double>::min() ? 0.0 : result;
}

}  // namespace

double Exp2(double x) {
  if (!(x == x)) return x;
  if (x > 1100) return kInf;
  if (x < -1100) return 0.0;
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  const double n = std::nearbyint(x);
  return Scale(ExpSmall((x - n) * kLn2), n);
}

double Exp(double x) {
  if (!(x == x)) return x;
  if (x > 750) return kInf;
  if (x < -750) return 0.0;
  // ln(2) in two doubles; the high one has 32 trailing zero bits, so n * high is exact.
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42feep-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  const double n = std::nearbyint(x * kLog2E);
  double t = std::fma(-n, kLn2High, x);
  t = std::fma(-n, kLn2Low, t);
  return Scale(ExpSmall(t), n);
}

double Log2(double x) {
  if (!(x > 0) || x == kInf) return x == 0 ? -kInf : (x == kInf ? kInf : kNan);
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  // ln(m) = 2 atanh(z), z = (m - 1) / (m + 1), |z| <= 0.172: z^25 / 25 is below 4e-21.
  const double z = (mantissa - 1.0) / (mantissa + 1.0);
  const double z2 = z * z;
  double sum = 0;
  for (int k = 23; k >= 3; k -= 2) sum = std::fma(sum, z2, 1.0 / k);
  const double ln = 2.0 * std::fma(z * z2, sum, z);
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  return std::fma(ln, kLog2E, static_cast<double>(exponent));
}

double Pow(double base, double exponent) { return Exp2(exponent * Log2(base)); }

void SinCos(double radians, double* sin, double* cos) {
  if (!(std::fabs(radians) <= 1e15)) {
    *sin = *cos = kNan;
    return;
  }
  // pi / 2 = high + middle + low. The first fma is exact: the quotient's product and the angle agree in their leading
  // bits, and what is left fits 53 bits. So the error is that of n * middle, about n * 1e-32.
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kHigh = 0x1.921fb54442d18p+0;
  constexpr double kMiddle = 0x1.1a62633145c07p-54;
  constexpr double kLow = -0x1.f1976b7ed8fbcp-110;
  const double n = std::nearbyint(radians * kTwoOverPi);
  double r = std::fma(-n, kHigh, radians);
  r = std::fma(-n, kMiddle, r);
  r = std::fma(-n, kLow, r);
  // Taylor on |r| <= pi / 4 (a little more where n was rounded the other way): r^19 / 19! is below 1e-19.
  const double r2 = r * r;
  double s = 0;
  double c = 0;
  for (int k = 17; k >= 3; k -= 2) s = std::fma(s + 1.0, -r2 / (k * (k - 1)), 0.0);
  for (int k = 18; k >= 2; k -= 2) c = std::fma(c + 1.0, -r2 / (k * (k - 1)), 0.0);
  const double sin_r = std::fma(r, s, r);
  const double cos_r = 1.0 + c;
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      *sin = sin_r;
      *cos = cos_r;
      break;
    case 1:
      *sin = cos_r;
      *cos = -sin_r;
      break;
    case 2:
      *sin = -sin_r;
      *cos = -cos_r;
      break;
    default:
      *sin = -cos_r;
      *cos = sin_r;
      break;
  }
}

}  // namespace rondo
