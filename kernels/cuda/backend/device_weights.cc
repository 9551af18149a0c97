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

// Forms lie one after the other, each from a boundary that every kernel is content with.
constexpr size_t kBoundary = 256;
size_t Aligned(size_t bytes) { return (bytes + kBoundary - 1) / kBoundary * kBoundary; }

struct Need {
  size_t rounded = 0, packed = 0, as_in_file = 0;
  size_t kept = 0;     // all of them and the gains, each on its boundary
  size_t reading = 0;  // the largest that is converted, while it is
  size_t files = 0;    // to be read
};

Need NeedOf(const std::vector<Wanted>& wanted, size_t gains, size_t gain_bytes) {
  Need need;
  need.kept = gains * Aligned(gain_bytes);
  for (const Wanted& w : wanted) {
    const size_t as_in_file = w.file ? w.file_bytes() : 0;
    need.rounded += w.rounded_bytes();
    need.packed += w.packed_bytes();
    need.as_in_file += as_in_file;
    need.kept += Aligned(w.rounded_bytes()) + Aligned(w.packed_bytes()) + Aligned(as_in_file);
    if (w.rounded || w.packed) need.reading = std::max(need.reading, w.file_bytes());
    need.files += w.file_bytes();
  }
  return need;
}

absl::Status Exhausted(const Need& need, GpuDense& gpu) {
  return absl::ResourceExhaustedError(absl::StrCat("the weights need ", need.kept + need.reading,
                                                   " bytes of GPU memory (", need.rounded, " in bf16, ", need.packed,
                                                   " packed, ", need.as_in_file, " as in the file, ", need.reading,
                                                   " while they are read), and ", gpu.free_bytes(), " are free"));
}

// Hands out the storage from its beginning.
class Places {
 public:
  explicit Places(std::byte* begin) : next_(begin) {}
  template <typename T>
  T* Take(size_t bytes) {
    return reinterpret_cast<T*>(std::exchange(next_, next_ + Aligned(bytes)));
  }

 private:
  std::byte* next_;
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

// From the file's bytes on the device to the forms that are wanted of them.
void Convert(GpuDense& gpu, const WeightView& view, const uint8_t* file, uint16_t* rounded, uint8_t* packed) {
  const auto row_bytes = static_cast<int64_t>(view.row_bytes);
  if (rounded != nullptr) {
    gpu.Dequantise({.weight = file, .row_bytes = row_bytes, .out = rounded, .rows = view.rows, .cols = view.cols},
                   view.type, RowType::kBf16);
  }
  if (packed != nullptr) {
    gpu.PackWeight({.weight = file,
                    .row_bytes = row_bytes,
                    .packed = packed,
                    .rows = static_cast<int32_t>(view.rows),
                    .cols = static_cast<int32_t>(view.cols)},
                   view.type);
  }
}

DeviceWeight Read(GpuDense& gpu, const Wanted& w, uint8_t* reading, Places& places) {
  uint16_t* const rounded = w.rounded ? places.Take<uint16_t>(w.rounded_bytes()) : nullptr;
  uint8_t* const packed = w.packed ? places.Take<uint8_t>(w.packed_bytes()) : nullptr;
  uint8_t* const kept = w.file ? places.Take<uint8_t>(w.file_bytes()) : nullptr;
  uint8_t* const file = w.file ? kept : reading;
  gpu.memory().Copy(file, w.view->data, w.file_bytes());
  Convert(gpu, *w.view, file, rounded, packed);
  return {rounded, packed, kept};
}

std::vector<const float*> GainsOf(const ModelWeights& weights) {
  std::vector<const float*> gains = {weights.output_norm};
  for (const LayerWeights& layer : weights.layers) gains.insert(gains.end(), {layer.attn_norm, layer.ffn_norm});
  return gains;
}

}  // namespace

absl::StatusOr<DeviceWeights> DeviceWeights::Upload(GpuDense& gpu, const ModelWeights& weights) {
  const std::vector<Wanted> wanted = WantedOf(weights);
  for (const Wanted& w : wanted) {
    if (absl::Status fits = Check(gpu, w); !fits.ok()) return fits;
  }
  const std::vector<const float*> gains = GainsOf(weights);
  const size_t gain_bytes = weights.embedding.cols * sizeof(float);
  const Need need = NeedOf(wanted, gains.size(), gain_bytes);
  if (need.kept + need.reading > gpu.free_bytes()) return Exhausted(need, gpu);
  DeviceWeights made(gpu.memory());
  TensorBuffer reading(gpu.memory());
  if (!made.storage_.TryGrow(need.kept) || !reading.TryGrow(need.reading)) return Exhausted(need, gpu);

  Places places(made.storage_.data());
  Progress progress(need.files);
  for (const Wanted& w : wanted) {
    made.weights_[w.view->data] = Read(gpu, w, reinterpret_cast<uint8_t*>(reading.data()), places);
    progress.Add(w.file_bytes());
    if (!w.rounded) continue;
    made.most_cols_ = std::max(made.most_cols_, w.view->cols);
    made.most_outputs_ = std::max(made.most_outputs_, LtPaddedOutputs(w.view->rows));
  }
  for (const float* const gain : gains) {
    auto* const on_device = places.Take<float>(gain_bytes);
    gpu.memory().Copy(on_device, gain, gain_bytes);
    made.gains_[gain] = on_device;
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
