// The exponent by which a quantity grows: least squares in log-log; used by the tables and plots of `rondo bench
// scale`.
#pragma once

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace rondo::cli {

// y = factor * x ^ exponent.
struct PowerFit {
  double exponent = 0;
  double factor = 0;
  double At(double x) const { return factor * std::pow(x, exponent); }
};

// Points with x and y above zero. Empty with fewer than two different x.
inline std::optional<PowerFit> FitPower(const std::vector<std::pair<double, double>>& points) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (const auto& [x, y] : points) {
    if (!(x > 0) || !(y > 0)) continue;
    const double lx = std::log(x), ly = std::log(y);
    n += 1;
    sx += lx;
    sy += ly;
    sxx += lx * lx;
    sxy += lx * ly;
  }
  const double spread = n * sxx - sx * sx;
  if (n < 2 || spread < 1e-12) return std::nullopt;
  const double exponent = (n * sxy - sx * sy) / spread;
  return PowerFit{exponent, std::exp((sy - exponent * sx) / n)};
}

}  // namespace rondo::cli
