#include "cli/logits_compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace rondo::cli {
namespace {

double Deviation(const float* row, uint64_t n) {
  double mean = 0;
  for (uint64_t i = 0; i < n; ++i) mean += row[i];
  mean /= static_cast<double>(n);
  double square = 0;
  for (uint64_t i = 0; i < n; ++i) square += (row[i] - mean) * (row[i] - mean);
  return std::sqrt(square / static_cast<double>(n));
}

}  // namespace

absl::Status LogitsTable::Append(uint64_t step, uint64_t offset, std::string_view bytes) {
  if (step == starts_.size() && offset == 0) starts_.push_back(values_.size());
  if (step + 1 != starts_.size() || offset != values_.size() - starts_.back() || bytes.size() % sizeof(float) != 0) {
    return absl::DataLossError(absl::StrCat("logits out of order: got step ", step, " at ", offset, " (", bytes.size(),
                                            " bytes) after ", rows(), " steps and ", values_.size(), " values"));
  }
  const size_t size = values_.size();
  values_.resize(size + bytes.size() / sizeof(float));
  std::memcpy(values_.data() + size, bytes.data(), bytes.size());
  return absl::OkStatus();
}

LogitsDifference CompareLogits(const LogitsTable& a, const LogitsTable& b) {
  if (a.rows() != b.rows()) return {};
  return CompareCommonRows(a, b);
}

LogitsDifference CompareCommonRows(const LogitsTable& a, const LogitsTable& b) {
  LogitsDifference result;
  const uint64_t rows = std::min(a.rows(), b.rows());
  for (uint64_t step = 0; step <= rows; ++step) {
    if (a.start(step) != b.start(step)) return result;
  }
  result.same_shape = true;
  for (uint64_t step = 0; step < rows; ++step) {
    const uint64_t begin = a.start(step);
    const uint64_t end = a.start(step + 1);
    double largest = 0;
    for (uint64_t i = begin; i < end; ++i) {
      const float x = a.values()[i];
      const float y = b.values()[i];
      if (std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y)) continue;
      if (result.different++ == 0) {
        result.first_step = step;
        result.first_token = i - begin;
      }
      const double difference = std::fabs(static_cast<double>(x) - static_cast<double>(y));
      largest = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::fmax(largest, difference);
    }
    result.largest_absolute = std::fmax(result.largest_absolute, largest);
    if (largest > 0) {
      result.largest_relative =
          std::fmax(result.largest_relative, largest / Deviation(b.values().data() + begin, end - begin));
    }
  }
  return result;
}

}  // namespace rondo::cli
