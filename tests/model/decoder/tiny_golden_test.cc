// Both decoders against the logits that transformers computes for two random models, at every position of the file.
#include <cmath>
#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "model/decoder/reference_decoder.h"
#include "tests/model/decoder/decoder_fixture.h"
#include "tests/testing/npz.h"
#include "tests/testing/test_data.h"

namespace rondo {
namespace {

// A golden row is met when its error's standard deviation is below this part of the logits' own.
constexpr double kTolerance = 2e-4;

class TinyGolden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = std::string("tiny/") + GetParam() + "/";
    const auto file = UnpackTestFile(folder + GetParam() + ".gguf.gz");
    ASSERT_TRUE(file.ok()) << file.status();
    model_ = LoadOrDie(*file);
    auto arrays = ReadNpz(TestDataPath(folder + "golden.npz"));
    ASSERT_TRUE(arrays.ok()) << arrays.status();
    for (double id : (*arrays)["ids"].values) ids_.push_back(static_cast<int32_t>(id));
    for (double row : (*arrays)["rows"].values) rows_.push_back(static_cast<size_t>(row));
    golden_ = (*arrays)["logits"].values;
    ASSERT_EQ(golden_.size(), rows_.size() * model_.config.vocab);
    ASSERT_EQ(ids_.size(), 193u);
    ASSERT_GE(rows_.size(), 8u);
  }

  // `logits` of golden row number `i`.
  template <typename T>
  void ExpectGolden(const T* logits, size_t i) {
    const int32_t vocab = model_.config.vocab;
    double mean = 0, spread = 0, error = 0;
    for (int32_t t = 0; t < vocab; ++t) mean += golden_[i * vocab + t] / vocab;
    for (int32_t t = 0; t < vocab; ++t) {
      spread += std::pow(golden_[i * vocab + t] - mean, 2);
      error += std::pow(logits[t] - golden_[i * vocab + t], 2);
    }
    EXPECT_LT(std::sqrt(error / spread), kTolerance) << "position " << rows_[i];
  }

  // `logits` [ids, vocab].
  void ExpectGoldenRows(const std::vector<float>& logits) {
    for (size_t i = 0; i < rows_.size(); ++i) ExpectGolden(&logits[rows_[i] * model_.config.vocab], i);
  }

  LoadedModel model_;
  std::vector<int32_t> ids_;
  std::vector<size_t> rows_;
  std::vector<double> golden_;
};

TEST_P(TinyGolden, ReferenceDecoderMeetsEveryRow) {
  ThreadPool pool(2);
  ReferenceDecoder decoder(model_.config, model_.weights, pool);
  size_t next = 0;
  double last_fraction = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const auto part = absl::MakeConstSpan(ids_).subspan(next, rows_[i] + 1 - next);
    const std::vector<double> logits = decoder.Append(part, [&](double fraction) {
      last_fraction = fraction;
      return true;
    });
    next = rows_[i] + 1;
    ExpectGolden(logits.data(), i);
    EXPECT_EQ(decoder.tokens(), static_cast<int64_t>(next));
    EXPECT_EQ(last_fraction, 1);
  }
}

TEST_P(TinyGolden, ReferenceDecoderStopsWhenAsked) {
  ThreadPool pool(1);
  ReferenceDecoder decoder(model_.config, model_.weights, pool);
  int calls = 0;
  EXPECT_TRUE(decoder.Append(ids_, [&](double) { return ++calls < 2; }).empty());
  EXPECT_EQ(calls, 2);
}

TEST_P(TinyGolden, EveryKernelFamilyMeetsEveryRowHoweverTheTokensCome) {
  for (const KernelSet& kernels : HostKernels()) {
    SCOPED_TRACE(std::string(kernels.name));
    Sequence whole(model_, kernels, 193);
    const std::vector<float> hidden = whole.AppendInChunks(ids_, 0);
    const std::vector<float> logits = whole.Logits(hidden);
    ExpectGoldenRows(logits);
    for (size_t chunk : {1, 7, 50}) {
      Sequence chunked(model_, kernels, 193);
      const std::vector<float> same = chunked.Logits(chunked.AppendInChunks(ids_, chunk));
      ASSERT_EQ(std::memcmp(same.data(), logits.data(), logits.size() * sizeof(float)), 0) << "chunks of " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TinyGolden, testing::Values("llama-gqa", "llama3-rope"),
                         [](const auto& info) { return info.index == 0 ? "LlamaGqa" : "Llama3Rope"; });

}  // namespace
}  // namespace rondo
