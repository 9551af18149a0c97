// The dense seam over an emulated GPU: every weight type and kind of row against double, the bits of a row whatever is
// beside it, which kernel multiplied what, and weights that do not fit.
#include "kernels/cuda/backend/cuda_dense.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/thread_pool.h"
#include "kernels/cuda/dense/packed_weight.h"
#include "kernels/ref/factories.h"
#include "tests/kernels/cuda/backend/emulated_dense.h"
#include "tests/kernels/dense/weights.h"
#include "tests/testing/simt/small_floats.h"

namespace rondo::cuda {
namespace {

using rondo::testing::RandomFloats;
using rondo::testing::TypeName;
using ::testing::ElementsAre;
using ::testing::Pair;

using Launches = std::map<std::string, int>;

constexpr int64_t kWidth = 256, kInner = 512;  // whole blocks of every type
constexpr int64_t kVocab = 45;                 // not cuBLASLt's eight
constexpr WeightType kSome[] = {WeightType::kQ4_1, WeightType::kQ4_K, WeightType::kQ6_K};

// One layer of one type, too small for anything but these tests.
struct SmallModel {
  explicit SmallModel(WeightType type, uint64_t seed = 1) : random(seed) {
    weights.layers.emplace_back();
    LayerWeights& layer = weights.layers[0];
    layer.wq = Matrix(type, 72, kWidth);
    layer.wk = Matrix(type, 8, kWidth);
    layer.wv = Matrix(type, 24, kWidth);
    layer.wo = Matrix(type, kWidth, kWidth);
    layer.gate = Matrix(type, kInner, kWidth);
    layer.up = Matrix(type, kInner, kWidth);
    layer.down = Matrix(type, kWidth, kInner);
    weights.embedding = Matrix(type, kVocab, kWidth);
    weights.output = Matrix(type, kVocab, kWidth);
    for (std::vector<float>& gain : gains) gain = RandomFloats(kWidth, random);
    layer.attn_norm = gains[0].data();
    layer.ffn_norm = gains[1].data();
    weights.output_norm = gains[2].data();
  }

  WeightView Matrix(WeightType type, int64_t rows, int64_t cols) {
    matrices.push_back(rondo::testing::MakeWeights(type, rows, cols, rondo::testing::Fill::kRandom, random));
    return matrices.back().view;
  }

  std::mt19937_64 random;
  std::vector<rondo::testing::Weights> matrices;
  std::vector<float> gains[3];
  ModelWeights weights;
};

// The model on a GPU, and calls over rows in host memory.
struct OnGpu {
  explicit OnGpu(const SmallModel& model) : dense(CudaDense::Create(emulated, model.weights).value()) {
    emulated.TakeLaunches();
  }

  // Device memory with these values.
  float* Put(const std::vector<float>& values) {
    buffers.emplace_back(gpu);
    auto* const to = reinterpret_cast<float*>(buffers.back().Grow(std::max<size_t>(1, values.size() * sizeof(float))));
    gpu.Copy(to, values.data(), values.size() * sizeof(float));
    return to;
  }
  std::vector<float> Get(const float* from, int64_t count) {
    std::vector<float> values(count);
    gpu.Copy(values.data(), from, count * sizeof(float));
    return values;
  }

  // [count, weight.rows] of x [count, weight.cols]; memory beyond it must stay as it is.
  std::vector<float> MatMul(const WeightView& weight, RowKind kind, const std::vector<float>& x) {
    const int64_t count = static_cast<int64_t>(x.size()) / weight.cols;
    const std::vector<float> fence(16, 7.0f);
    std::vector<float> room(count * weight.rows, std::numeric_limits<float>::quiet_NaN());
    room.insert(room.end(), fence.begin(), fence.end());
    float* const y = Put(room);
    ActivationRows rows;
    rows.kind = kind;
    dense->PrepareRows(ComputeMode::kBf16, Put(x), count, weight.cols, &rows, pool);
    dense->MatMul(weight, rows, y, pool);
    EXPECT_EQ(Get(y + count * weight.rows, 16), fence);
    return Get(y, count * weight.rows);
  }

  EmulatedGpu gpu;
  EmulatedDense emulated{gpu};
  std::unique_ptr<CudaDense> dense;
  std::vector<TensorBuffer> buffers;
  ThreadPool pool{1};
};

std::vector<float> PickRows(const std::vector<float>& rows, int64_t cols, const std::vector<int64_t>& which) {
  std::vector<float> picked;
  for (const int64_t row : which)
    picked.insert(picked.end(), rows.begin() + row * cols, rows.begin() + (row + 1) * cols);
  return picked;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

float Bf16(double x) { return simt::Bf16ToFloat(simt::FloatToBf16(static_cast<float>(x))); }

// y against the sums in double of w and x as `seen` makes them.
template <class Seen>
void ExpectProducts(const WeightView& weight, const std::vector<float>& x, const std::vector<float>& y, Seen seen) {
  const std::vector<double> w = rondo::testing::Decode(weight);
  for (size_t i = 0; i * weight.cols < x.size(); ++i) {
    for (int64_t r = 0; r < weight.rows; ++r) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j < weight.cols; ++j) {
        const double product = seen(w[r * weight.cols + j]) * seen(x[i * weight.cols + j]);
        sum += product;
        size += std::fabs(product);
      }
      ASSERT_NEAR(y[i * weight.rows + r], sum, 1e-5 * size) << i << ", " << r;
    }
  }
}

TEST(CudaDenseTest, GivenRowsMeetEveryTypeInBf16) {
  for (const WeightType type : rondo::testing::kAllWeightTypes) {
    SCOPED_TRACE(TypeName(type));
    const SmallModel model(type);
    OnGpu on(model);
    std::mt19937_64 random(2);
    const LayerWeights& layer = model.weights.layers[0];
    for (const WeightView* weight : {&layer.wk, &layer.wv, &layer.down}) {
      const std::vector<float> x = RandomFloats(3 * weight->cols, random);
      ExpectProducts(*weight, x, on.MatMul(*weight, RowKind::kGiven, x), Bf16);
    }
  }
}

TEST(CudaDenseTest, DrawnRowsMeetPackedCodesInFloat32AndOthersInBf16) {
  for (const WeightType type : rondo::testing::kAllWeightTypes) {
    SCOPED_TRACE(TypeName(type));
    const SmallModel model(type);
    OnGpu on(model);
    std::mt19937_64 random(3);
    const LayerWeights& layer = model.weights.layers[0];
    for (const WeightView* weight : {&layer.wv, &layer.down, &model.weights.output}) {
      const std::vector<float> x = RandomFloats(2 * weight->cols, random);
      const std::vector<float> y = on.MatMul(*weight, RowKind::kDrawn, x);
      if (CanPack(type)) {
        ExpectProducts(*weight, x, y, [](double v) { return v; });
      } else {
        ExpectProducts(*weight, x, y, Bf16);
      }
    }
  }
}

TEST(CudaDenseTest, TheKernelFollowsFromKindAndTypeAlone) {
  for (const WeightType type : kSome) {
    SCOPED_TRACE(TypeName(type));
    const SmallModel model(type);
    OnGpu on(model);
    const WeightView& weight = model.weights.layers[0].wk;
    for (const int64_t count : {0, 1, 8, 9, 127, 128, 129, 300}) {
      SCOPED_TRACE(count);
      const std::vector<float> x(count * kWidth, 0.5f);
      Launches by_lt;
      if (count > 0) by_lt = {{"round", 1}, {"lt", static_cast<int>((count + 127) / 128)}};
      if (count % 128 != 0) by_lt["move"] = 1;
      on.MatMul(weight, RowKind::kGiven, x);
      EXPECT_EQ(on.emulated.TakeLaunches(), by_lt);
      on.MatMul(weight, RowKind::kDrawn, x);
      const Launches few = count > 0 ? Launches{{"few rows", 1}} : Launches{};
      EXPECT_EQ(on.emulated.TakeLaunches(), CanPack(type) ? few : by_lt);
    }
  }
}

TEST(CudaDenseTest, RowsAreRoundedOnceForSeveralProducts) {
  const SmallModel model(WeightType::kQ6_K);
  OnGpu on(model);
  const LayerWeights& layer = model.weights.layers[0];
  std::mt19937_64 random(4);
  const std::vector<float> x = RandomFloats(2 * kWidth, random), other = RandomFloats(2 * kWidth, random);
  const std::vector<float> expected = on.MatMul(layer.wk, RowKind::kGiven, x);
  float* const y = on.Put(std::vector<float>(2 * 72));
  ActivationRows rows, others;
  on.dense->PrepareRows(ComputeMode::kBf16, on.Put(x), 2, kWidth, &rows, on.pool);
  on.emulated.TakeLaunches();
  on.dense->MatMul(layer.wq, rows, y, on.pool);
  on.dense->MatMul(layer.wk, rows, y, on.pool);
  EXPECT_EQ(on.emulated.TakeLaunches()["round"], 1);
  // Rows made ready in between do not take the place of these.
  on.dense->PrepareRows(ComputeMode::kBf16, on.Put(other), 2, kWidth, &others, on.pool);
  on.dense->MatMul(layer.wk, others, y, on.pool);
  on.dense->MatMul(layer.wk, rows, y, on.pool);
  EXPECT_TRUE(SameBits(on.Get(y, 16), expected));
  // Other values at the same place are other rows.
  float* const place = on.Put(x);
  on.dense->PrepareRows(ComputeMode::kBf16, place, 2, kWidth, &rows, on.pool);
  on.dense->MatMul(layer.wk, rows, y, on.pool);
  on.gpu.Copy(place, other.data(), other.size() * sizeof(float));
  on.dense->PrepareRows(ComputeMode::kBf16, place, 2, kWidth, &rows, on.pool);
  on.dense->MatMul(layer.wk, rows, y, on.pool);
  EXPECT_FALSE(SameBits(on.Get(y, 16), expected));
}

TEST(CudaDenseTest, ARowsBitsAreItsOwn) {
  constexpr int64_t kCount = 133;
  for (const WeightType type : kSome) {
    const SmallModel model(type);
    OnGpu on(model);
    std::mt19937_64 random(5);
    const WeightView& wk = model.weights.layers[0].wk;
    const std::vector<float> x = RandomFloats(kCount * kWidth, random);
    for (const RowKind kind : {RowKind::kGiven, RowKind::kDrawn}) {
      SCOPED_TRACE(::testing::Message() << TypeName(type) << (kind == RowKind::kDrawn ? " drawn" : " given"));
      const std::vector<float> all = on.MatMul(wk, kind, x);
      const std::vector<std::vector<int64_t>> choices = {{0}, {132}, {128, 3}, {5, 4, 3, 2, 1, 0, 127, 130, 131}};
      for (const std::vector<int64_t>& which : choices) {
        EXPECT_TRUE(SameBits(on.MatMul(wk, kind, PickRows(x, kWidth, which)), PickRows(all, wk.rows, which)))
            << which[0];
      }
    }
    // The odd number of outputs, for which there is a padded buffer.
    const WeightView& output = model.weights.output;
    const std::vector<float> logits = on.MatMul(output, RowKind::kDrawn, PickRows(x, kWidth, {0, 1, 2}));
    EXPECT_TRUE(SameBits(on.MatMul(output, RowKind::kDrawn, PickRows(x, kWidth, {2})), PickRows(logits, kVocab, {2})));
  }
}

// Against the kernels in double of the CPU.
class CudaDenseRows : public ::testing::Test {
 protected:
  CudaDenseRows() : model_(WeightType::kQ8_0), on_(model_), random_(6) {}
  static void ExpectNear(const std::vector<float>& got, const std::vector<float>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-6 * (1 + std::fabs(expected[i]))) << i;
  }
  SmallModel model_;
  OnGpu on_;
  std::mt19937_64 random_;
  const DenseKernels& ref_ = *RefDense();
};

TEST_F(CudaDenseRows, Norms) {
  std::vector<float> x = RandomFloats(3 * kWidth, random_), addend = RandomFloats(3 * kWidth, random_);
  std::vector<float> expected(x.size());
  float* const on_x = on_.Put(x);
  float* const y = on_.Put(x);
  for (const std::vector<float>& gain : model_.gains) {
    ref_.RmsNorm(x.data(), gain.data(), 1e-5f, 3, kWidth, expected.data(), on_.pool);
    on_.dense->RmsNorm(on_x, gain.data(), 1e-5f, 3, kWidth, y, on_.pool);
    ExpectNear(on_.Get(y, 3 * kWidth), expected);
  }
  EXPECT_TRUE(SameBits(on_.Get(on_x, 3 * kWidth), x));
  // With the sum before it, then in place.
  const float* gain = model_.gains[1].data();
  ref_.AddRmsNorm(x.data(), addend.data(), gain, 1e-5f, 3, kWidth, expected.data(), on_.pool);
  on_.dense->AddRmsNorm(on_x, on_.Put(addend), gain, 1e-5f, 3, kWidth, y, on_.pool);
  ExpectNear(on_.Get(y, 3 * kWidth), expected);
  EXPECT_TRUE(SameBits(on_.Get(on_x, 3 * kWidth), x));
  on_.dense->RmsNorm(on_x, gain, 1e-5f, 3, kWidth, on_x, on_.pool);
  EXPECT_TRUE(SameBits(on_.Get(on_x, 3 * kWidth), on_.Get(y, 3 * kWidth)));
}

TEST_F(CudaDenseRows, RopeActivationsAndSums) {
  std::vector<float> x = RandomFloats(5 * 3 * 64, random_);
  const std::vector<float> cos = RandomFloats(5 * 24, random_), sin = RandomFloats(5 * 24, random_);
  for (const RopePairing pairing : {RopePairing::kInterleaved, RopePairing::kHalves}) {
    float* const on_x = on_.Put(x);
    on_.dense->Rope(on_x, 5, 3, 64, pairing, on_.Put(cos), on_.Put(sin), 48, on_.pool);
    ref_.Rope(x.data(), 5, 3, 64, pairing, cos.data(), sin.data(), 48, on_.pool);
    ExpectNear(on_.Get(on_x, 5 * 3 * 64), x);
  }
  std::vector<float> gate = RandomFloats(1000, random_), up = RandomFloats(1000, random_), out(1000);
  for (const GateKind kind : {GateKind::kSilu, GateKind::kGeluTanh}) {
    float* const on_gate = on_.Put(gate);
    on_.dense->GatedActivation(kind, on_gate, on_.Put(up), 1000, on_gate, on_.pool);
    ref_.GatedActivation(kind, gate.data(), up.data(), 1000, out.data(), on_.pool);
    ExpectNear(on_.Get(on_gate, 1000), out);
  }
  float* const sum = on_.Put(gate);
  on_.dense->Add(sum, on_.Put(up), 1000, on_.pool);
  ref_.Add(gate.data(), up.data(), 1000, on_.pool);
  EXPECT_TRUE(SameBits(on_.Get(sum, 1000), gate));
}

TEST_F(CudaDenseRows, LookupGivesTheFilesNumbers) {
  for (const WeightType type : rondo::testing::kAllWeightTypes) {
    SmallModel model(type);
    OnGpu on(model);
    const std::vector<int32_t> ids = {44, 0, 7, 7};
    std::vector<float> expected(ids.size() * kWidth);
    ref_.DequantiseRows(model.weights.embedding, ids.data(), 4, expected.data(), on.pool);
    float* const out = on.Put(expected);
    on.dense->DequantiseRows(model.weights.embedding, ids.data(), 4, out, on.pool);
    EXPECT_TRUE(SameBits(on.Get(out, 4 * kWidth), expected)) << TypeName(type);
    on.dense->DequantiseRow(model.weights.embedding, 7, out);
    EXPECT_TRUE(SameBits(on.Get(out, kWidth), PickRows(expected, kWidth, {2}))) << TypeName(type);
  }
}

TEST_F(CudaDenseRows, NoRowsNeedNoLaunch) {
  on_.dense->RmsNorm(nullptr, model_.gains[0].data(), 1e-5f, 0, kWidth, nullptr, on_.pool);
  on_.dense->Rope(nullptr, 0, 3, 64, RopePairing::kHalves, nullptr, nullptr, 64, on_.pool);
  on_.dense->GatedActivation(GateKind::kSilu, nullptr, nullptr, 0, nullptr, on_.pool);
  on_.dense->Add(nullptr, nullptr, 0, on_.pool);
  on_.dense->DequantiseRows(model_.weights.embedding, nullptr, 0, nullptr, on_.pool);
  EXPECT_TRUE(on_.emulated.TakeLaunches().empty());
}

class UploadTest : public ::testing::Test {
 protected:
  absl::Status Upload(const SmallModel& model) { return CudaDense::Create(dense_, model.weights).status(); }
  EmulatedGpu gpu_;
  EmulatedDense dense_{gpu_};
};

// Every number by hand, for Q8_0 with its 34 bytes a block of 32.
TEST_F(UploadTest, WeightsThatDoNotFitAreRefusedWithTheNumbers) {
  const SmallModel model(WeightType::kQ8_0);
  constexpr int64_t kLayer = 72 + 8 + 24 + kWidth + 2 * kInner;  // rows of kWidth columns
  constexpr int64_t kDown = kWidth * kInner;
  constexpr int64_t kRounded = 2 * (kLayer * kWidth + kDown);
  // Rows in tiles of 16: 72 are 80, 8 are 16, 24 are 32, the output's 45 are 48; a byte a weight, and two for 32.
  constexpr int64_t kTiled = (80 + 16 + 32 + kWidth + 2 * kInner + 48) * kWidth + kDown;
  constexpr int64_t kPacked = kTiled + kTiled / 32 * 2;
  constexpr int64_t kEmbedding = kVocab * kWidth / 32 * 34;
  constexpr int64_t kLargest = kInner * kWidth / 32 * 34;
  // The embedding's 12,240 bytes alone do not end on 256.
  constexpr int64_t kNeeded = kRounded + kPacked + kEmbedding + 48 + 3 * kWidth * 4 + kLargest;
  dense_.set_free_bytes(kNeeded - 1);
  const absl::Status refused = Upload(model);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(), absl::StrCat("the weights need ", kNeeded, " bytes of GPU memory (", kRounded,
                                            " in bf16, ", kPacked, " packed, ", kEmbedding, " as in the file, ",
                                            kLargest, " while they are read), and ", kNeeded - 1, " are free"));
  dense_.set_free_bytes(kNeeded);
  EXPECT_TRUE(Upload(model).ok());
}

TEST_F(UploadTest, MemoryThatIsGoneByThenIsRefusedToo) {
  const SmallModel model(WeightType::kQ8_0);
  ASSERT_TRUE(Upload(model).ok());
  gpu_.set_memory(size_t{1} << 20);
  EXPECT_EQ(Upload(model).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(gpu_.used(), 0u);
}

// 256 rows of the widest weight in bf16, and a chunk of the most outputs in float32.
TEST_F(UploadTest, ScratchOfProductsIsTakenAtOnce) {
  const SmallModel model(WeightType::kQ6_K);
  constexpr size_t kScratch = 256 * kInner * 2 + 128 * kInner * 4;
  size_t with_scratch = 0;
  {
    const auto dense = CudaDense::Create(dense_, model.weights).value();
    with_scratch = gpu_.used();
  }
  // More than what the weights need while they are read.
  gpu_.set_memory(with_scratch - 1);
  const absl::Status refused = Upload(model);
  EXPECT_EQ(refused,
            absl::ResourceExhaustedError(absl::StrCat("beside the weights, products need ", kScratch,
                                                      " bytes of GPU memory, and ", uint64_t{1} << 40, " are free")));
  EXPECT_EQ(gpu_.used(), 0u);
}

// A tied output is read as the embedding, and multiplied.
TEST_F(UploadTest, ATiedOutputIsOneWeightInTwoForms) {
  for (const WeightType type : kSome) {
    SmallModel model(type);
    model.weights.output = model.weights.embedding;
    OnGpu on(model);
    std::mt19937_64 random(8);
    const std::vector<float> x = RandomFloats(kWidth, random);
    const std::vector<float> y = on.MatMul(model.weights.output, RowKind::kDrawn, x);
    if (CanPack(type)) {
      ExpectProducts(model.weights.output, x, y, [](double v) { return v; });
    } else {
      ExpectProducts(model.weights.output, x, y, Bf16);
    }
    std::vector<float> row(kWidth);
    RefDense()->DequantiseRow(model.weights.embedding, 3, row.data());
    float* const out = on.Put(row);
    on.dense->DequantiseRow(model.weights.embedding, 3, out);
    EXPECT_TRUE(SameBits(on.Get(out, kWidth), row));
  }
}

TEST_F(UploadTest, SizesAndTypesWithoutAKernelAreNamed) {
  SmallModel model(WeightType::kF32);
  model.weights.layers[0].wk = model.Matrix(WeightType::kF32, 8, 252);
  EXPECT_EQ(Upload(model), absl::InvalidArgumentError(
                               "layer 0 wk: rows of 252 weights have no GPU kernel, which takes multiples of 8"));
  model.weights.layers[0].wk.type = static_cast<WeightType>(99);
  EXPECT_EQ(Upload(model), absl::InvalidArgumentError("layer 0 wk: weight type 99 has no GPU kernel"));
}

TEST_F(UploadTest, AShapeThatCublasLtDoesNotMultiplyIsNamed) {
  dense_.set_refused_outputs(24);
  EXPECT_EQ(Upload(SmallModel(WeightType::kQ8_0)),
            absl::UnimplementedError("layer 0 wv: cuBLASLt has no algorithm without split-K for n 24, k 256"));
}

TEST(CudaDenseDeathTest, AWeightOfAnotherModelIsABug) {
  const SmallModel model(WeightType::kQ8_0), other(WeightType::kQ8_0, 2);
  OnGpu on(model);
  ActivationRows rows;
  on.dense->PrepareRows(ComputeMode::kBf16, on.Put(std::vector<float>(kWidth)), 1, kWidth, &rows, on.pool);
  EXPECT_DEATH(on.dense->MatMul(other.weights.layers[0].wk, rows, nullptr, on.pool), "RONDO_CHECK failed: found");
  EXPECT_DEATH(on.dense->PrepareRows(ComputeMode::kF32, nullptr, 1, kWidth, &rows, on.pool), "kBf16");
}

}  // namespace
}  // namespace rondo::cuda
