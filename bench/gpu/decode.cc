// Decode at 32k keys, 64 q heads on 8 KV heads: bytes of K and V read a second, beside the rate of a device copy
// measured in turn with it. The copy also leaves nothing of K and V in the L2 cache.
#include <memory>
#include <vector>

#include "bench/gpu/lines.h"
#include "bench/gpu/run_decode.h"
#include "bench/gpu/sections.h"

namespace rondo::gpu_check {
namespace {

constexpr size_t kCopyBytes = size_t{1} << 30;
constexpr int kRounds = 21;

void Measure(int head_dim, int sequences, const DeviceArray<uint8_t>& from, const DeviceArray<uint8_t>& to) {
  const Shape shape{.head_dim = head_dim, .rows = 1, .tokens = 32768, .first_position = 32767};
  std::vector<std::unique_ptr<Problem>> problems;
  std::vector<std::unique_ptr<FinishedRows>> rows;
  std::vector<const Problem*> problem_list;
  std::vector<const FinishedRows*> row_list;
  for (int i = 0; i < sequences; ++i) {
    problem_list.push_back(problems.emplace_back(std::make_unique<Problem>(shape, 20 + i)).get());
    row_list.push_back(rows.emplace_back(std::make_unique<FinishedRows>(shape, false)).get());
  }
  Decode decode(problem_list);
  decode.FinishInto(row_list);
  const std::vector<double> ms = MedianMs(
      {[&] { decode.Queue(); },
       [&] { Require(cudaMemcpyAsync(to.get(), from.get(), kCopyBytes, cudaMemcpyDeviceToDevice, nullptr), "copy"); }},
      kRounds);
  RowErrors errors;
  for (const Sample& sample : Samples(shape, 3)) {
    AddErrors(problem_list.back()->Oracle(sample.row, sample.head), row_list.back()->Out(sample.row, sample.head),
              row_list.back()->Lse(sample.row, sample.head), &errors);
  }
  const double bytes = 2.0 * 2 * static_cast<double>(shape.tokens) * shape.kv_heads * head_dim * sequences;
  const double read_rate = bytes / ms[0] * 1e-6, copy_rate = 2.0 * kCopyBytes / ms[1] * 1e-6;
  Line("row")
      .Text("kernel", "sm80 decode")
      .Count("head_dim", head_dim)
      .Count("sequences", sequences)
      .Number("ms", ms[0])
      .Number("gb_per_s", read_rate)
      .Number("copy_gb_per_s", copy_rate)
      .Number("percent_of_copy", 100 * read_rate / copy_rate)
      .Bool("pass", errors.fine())
      .Number("out_error", errors.out)
      .Number("lse_error", errors.lse)
      .Say();
}

}  // namespace

void MeasureDecode() {
  if (!Fits(3 * kCopyBytes + (size_t{5} << 30))) {
    Line("absent").Text("what", "decode").Text("why", "8 GiB of free device memory are wanted").Say();
    return;
  }
  const DeviceArray<uint8_t> from(kCopyBytes), to(kCopyBytes);
  Require(cudaMemset(from.get(), 1, kCopyBytes), "filling what is copied");
  for (const int head_dim : {128, 64, 256}) {
    for (const int sequences : {1, 4, 16}) Measure(head_dim, sequences, from, to);
  }
}

}  // namespace rondo::gpu_check
