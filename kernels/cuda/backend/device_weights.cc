#include "kernels/cuda/backend/device_weights.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/log.h"
#include "kernels/cuda/dense/packed_weight.h"

namespace rondo::cuda {
namespace {

constexpr absl::Duration kSilence = absl::Seconds(2);

// A matrix of the model, and who will read it.
struct Wanted {
  std::string name;
  const WeightView* view;
  bool rounded, packed, file;

  size_t file_bytes() const { return view->rows * view->row_bytes; }
  size_t rounded_bytes() const {
    return rounded ? LtPaddedOutputs(view->rows) * view->cols * sizeof(uint16_t) : size_t{0};
  }
  size_t packed_bytes() const {
    if (!packed) return 0;
    return PackedWeightBytes(view->type, static_cast<int32_t>(view->rows), static_cast<int32_t>(view->cols));
  }
};

std::vector<Wanted> WantedOf(const ModelWeights& weights) {
  std::vector<Wanted> wanted;
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    const LayerWeights& layer = weights.layers[i];
    const std::pair<const char*, const WeightView*> all[] = {
        {"wq", &layer.wq},     {"wk", &layer.wk}, {"wv", &layer.wv},    {"wo", &layer.wo},
        {"gate", &layer.gate}, {"up", &layer.up}, {"down", &layer.down}};
    for (const auto& [name, view] : all) {
      wanted.push_back({absl::StrCat("layer ", i, " ", name), view, true, CanPack(view->type), false});
    }
  }
  const bool packed = CanPack(weights.output.type);
  wanted.push_back({"output", &weights.output, !packed, packed, false});
  if (weights.output.data == weights.embedding.data) {
    wanted.back().file = true;
  } else {
    wanted.push_back({"embedding", &weights.embedding, false, false, true});
  }
  return wanted;
}

absl::Status Check(GpuDense& gpu, const Wanted& wanted) {
  const WeightView& view = *wanted.view;
  if (FindWeightType(view.type) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(wanted.name, ": weight type ", static_cast<uint32_t>(view.type), " has no GPU kernel"));
  }
  if (view.cols % kLtMultiple != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        wanted.name, ": rows of ", view.cols, " weights have no GPU kernel, which takes multiples of ", kLtMultiple));
  }
  RONDO_CHECK(std::max(view.rows, view.cols) <= std::numeric_limits<int32_t>::max() - 128);
  if (!wanted.rounded) return absl::OkStatus();
  const absl::Status prepared = gpu.PrepareLtMatMul(LtPaddedOutputs(view.rows), view.cols);
  if (prepared.ok()) return prepared;
  return absl::Status(prepared.code(), absl::StrCat(wanted.name, ": ", prepared.message()));
}

// Places one after the other, each on a boundary that every kernel is content with.
class Layout {
 public:
  size_t Place(size_t bytes) { return std::exchange(bytes_, bytes_ + (bytes + 255) / 256 * 256); }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

class Progress {
 public:
  explicit Progress(size_t total) : total_(total) {}
  void Add(size_t bytes) {
    done_ += bytes;
    const absl::Time now = absl::Now();
    if (now - said_ < kSilence) return;
    said_ = now;
    const double gb = static_cast<double>(done_) * 1e-9;
    LogInfo(absl::StrFormat("weights to the GPU: %.1f of %.1f GB, %.2f GB/s", gb, static_cast<double>(total_) * 1e-9,
                            gb / absl::ToDoubleSeconds(now - began_)));
  }

 private:
  const size_t total_;
  size_t done_ = 0;
  const absl::Time began_ = absl::Now();
  absl::Time said_ = began_;
};

void Convert(GpuDense& gpu, const Wanted& wanted, const std::byte* file, const DeviceWeight& to) {
  const WeightView& view = *wanted.view;
  const auto* weight = reinterpret_cast<const uint8_t*>(file);
  const auto row_bytes = static_cast<int64_t>(view.row_bytes);
  if (wanted.rounded) {
    gpu.Dequantise({.weight = weight,
                    .row_bytes = row_bytes,
                    .out = const_cast<uint16_t*>(to.rounded),
                    .rows = view.rows,
                    .cols = view.cols},
                   view.type, RowType::kBf16);
  }
  if (wanted.packed) {
    gpu.PackWeight({.weight = weight,
                    .row_bytes = row_bytes,
                    .packed = const_cast<uint8_t*>(to.packed),
                    .rows = static_cast<int32_t>(view.rows),
                    .cols = static_cast<int32_t>(view.cols)},
                   view.type);
  }
}

}  // namespace

absl::StatusOr<DeviceWeights> DeviceWeights::Upload(GpuDense& gpu, const ModelWeights& weights) {
  const std::vector<Wanted> wanted = WantedOf(weights);
  std::vector<const float*> gains = {weights.output_norm};
  for (const LayerWeights& layer : weights.layers) gains.insert(gains.end(), {layer.attn_norm, layer.ffn_norm});
  const size_t gain_bytes = weights.embedding.cols * sizeof(float);

  size_t rounded = 0, packed = 0, as_is = 0, largest = 0, to_read = 0;
  for (const Wanted& w : wanted) {
    if (absl::Status fits = Check(gpu, w); !fits.ok()) return fits;
    rounded += w.rounded_bytes();
    packed += w.packed_bytes();
    if (w.file) as_is += w.file_bytes();
    if (w.rounded || w.packed) largest = std::max(largest, w.file_bytes());
    to_read += w.file_bytes();
  }
  Layout layout;
  struct Places {
    size_t rounded, packed, file;
  };
  std::vector<Places> places;
  for (const Wanted& w : wanted) {
    places.push_back(
        {layout.Place(w.rounded_bytes()), layout.Place(w.packed_bytes()), layout.Place(w.file ? w.file_bytes() : 0)});
  }
  const size_t first_gain = layout.Place(0);
  for (size_t i = 0; i < gains.size(); ++i) layout.Place(gain_bytes);

  const auto exhausted = [&] {
    return absl::ResourceExhaustedError(absl::StrCat("the weights need ", layout.bytes() + largest,
                                                     " bytes of GPU memory (", rounded, " in bf16, ", packed,
                                                     " packed, ", as_is, " as in the file, ", largest,
                                                     " while they are read), and ", gpu.free_bytes(), " are free"));
  };
  if (layout.bytes() + largest > gpu.free_bytes()) return exhausted();
  DeviceWeights made(gpu.memory());
  TensorBuffer reading(gpu.memory());
  if (!made.storage_.TryGrow(layout.bytes()) || !reading.TryGrow(largest)) return exhausted();

  const auto at = [&](size_t place) { return made.storage_.data() + place; };
  Progress progress(to_read);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Wanted& w = wanted[i];
    DeviceWeight& to = made.weights_[w.view->data];
    if (w.rounded) {
      to.rounded = reinterpret_cast<const uint16_t*>(at(places[i].rounded));
      made.most_cols_ = std::max(made.most_cols_, w.view->cols);
      made.most_outputs_ = std::max(made.most_outputs_, LtPaddedOutputs(w.view->rows));
    }
    if (w.packed) to.packed = reinterpret_cast<const uint8_t*>(at(places[i].packed));
    if (w.file) {
      to.file = reinterpret_cast<const uint8_t*>(at(places[i].file));
      gpu.memory().Copy(at(places[i].file), w.view->data, w.file_bytes());
    } else {
      gpu.memory().Copy(reading.data(), w.view->data, w.file_bytes());
    }
    Convert(gpu, w, w.file ? at(places[i].file) : reading.data(), to);
    progress.Add(w.file_bytes());
  }
  for (size_t i = 0; i < gains.size(); ++i) {
    std::byte* const gain = at(first_gain) + i * ((gain_bytes + 255) / 256 * 256);
    gpu.memory().Copy(gain, gains[i], gain_bytes);
    made.gains_[gains[i]] = reinterpret_cast<const float*>(gain);
  }
  return made;
}

const DeviceWeight& DeviceWeights::Of(const WeightView& weight) const {
  const auto found = weights_.find(weight.data);
  RONDO_CHECK(found != weights_.end());
  return found->second;
}

const float* DeviceWeights::Gain(const float* host) const {
  const auto found = gains_.find(host);
  RONDO_CHECK(found != gains_.end());
  return found->second;
}

}  // namespace rondo::cuda
