// Elementary functions in double whose bits are the same on every machine, which libm's are not; used by the RoPE
// table and wherever else a result that leaves a rank needs a sine or an exponential.
//
// They use + - * / and fma alone, so rounding to nearest is all they ask of the hardware. Any thread; nothing fails.
#pragma once

namespace rondo {

// 2^x and e^x, relative error below 1e-15. Results above the double range are +inf, below the normal range +0; NaN
// stays NaN.
double Exp2(double x);
double Exp(double x);

// Base-2 logarithm of a normal x > 0, relative error below 1e-15 (absolute near x = 1).
double Log2(double x);

// base^exponent for base > 0: Exp2(exponent * Log2(base)). Relative error grows with |log2 of the result|, 2e-16 each.
double Pow(double base, double exponent);

// Sine and cosine, absolute error below 1e-15 for |radians| <= 1e7 and below 1e-12 up to 1e12. Non-finite: NaN.
void SinCos(double radians, double* sin, double* cos);

}  // namespace rondo
