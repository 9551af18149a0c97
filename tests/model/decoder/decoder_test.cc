// The decoder's bits against chunks, threads, instruction sets and modes, on a sequence of several canonical blocks;
// its errors and calls.
#include "model/decoder/decoder.h"

#include <cstring>
#include <ostream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/decoder/reference_decoder.h"
#include "tests/model/decoder/decoder_fixture.h"
#include "tests/testing/test_data.h"
#include "tests/testing/tiny_llama.h"

namespace rondo {
namespace {

// Two whole canonical blocks and an odd rest; more than one row block.
constexpr size_t kTokens = 2 * kBlockTokens + 87;

const LoadedModel& TinyModel(bool quantised) {
  static const auto* models = [] {
    auto* both = new std::vector<LoadedModel>;
    for (bool q : {false, true}) {
      const std::string path = TestTempDir() + (q ? "/q.gguf" : "/f.gguf");
      RONDO_CHECK(WriteTinyLlama(path, {.quantised = q, .layers = 3}).ok());
      both->push_back(LoadOrDie(path));
    }
    return both;
  }();
  return (*models)[quantised];
}

std::vector<int32_t> SomeTokens(size_t count) {
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>(i * i * 31 % 257);
  return tokens;
}

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

struct Mode {
  const char* name;
  bool quantised;
  ComputeMode mode;
  KvType kv;
};
void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }

class DecoderBits : public testing::TestWithParam<Mode> {
 protected:
  RunOptions Options(int threads) const { return {GetParam().mode, GetParam().kv, threads}; }
  const LoadedModel& model_ = TinyModel(GetParam().quantised);
  const std::vector<int32_t> tokens_ = SomeTokens(kTokens);
};

TEST_P(DecoderBits, DoNotDependOnChunksOrThreads) {
  for (const KernelSet& kernels : HostKernels()) {
    SCOPED_TRACE(std::string(kernels.name));
    Sequence whole(model_, kernels, kTokens, Options(1));
    const std::vector<float> hidden = whole.AppendInChunks(tokens_, 0);
    const std::vector<float> last = whole.LastLogits(hidden);
    for (size_t chunk : {1, 37, 300}) {
      SCOPED_TRACE(chunk);
      Sequence chunked(model_, kernels, kTokens, Options(chunk == 1 ? 1 : 3));
      const std::vector<float> same = chunked.AppendInChunks(tokens_, chunk);
      ExpectSameBits(same, hidden);
      ExpectSameBits(chunked.LastLogits(same), last);
    }
  }
}

TEST_P(DecoderBits, AreTheSameOnEveryInstructionSet) {
  std::vector<float> first;
  for (const KernelSet& kernels : HostKernels()) {
    if (kernels.name == "ref") continue;  // a family of its own
    SCOPED_TRACE(std::string(kernels.name));
    Sequence sequence(model_, kernels, kTokens, Options(2));
    const std::vector<float> hidden = sequence.AppendInChunks(tokens_, 200);
    if (first.empty()) first = hidden;
    ExpectSameBits(hidden, first);
  }
}

// A later token must not change what came before it, and every token must matter to the last row.
TEST_P(DecoderBits, FollowTheTokens) {
  const KernelSet kernels = *SelectKernels("");
  Sequence a(model_, kernels, kTokens, Options(1)), b(model_, kernels, kTokens, Options(1));
  std::vector<int32_t> changed = tokens_;
  const size_t at = 300, width = model_.config.embedding;
  changed[at] = (changed[at] + 1) % 256;
  const std::vector<float> x = a.AppendInChunks(tokens_, 0), y = b.AppendInChunks(changed, 0);
  EXPECT_EQ(std::memcmp(x.data(), y.data(), at * width * sizeof(float)), 0);
  EXPECT_NE(std::memcmp(&x[at * width], &y[at * width], width * sizeof(float)), 0);
  EXPECT_NE(std::memcmp(&x[(kTokens - 1) * width], &y[(kTokens - 1) * width], width * sizeof(float)), 0);
}

INSTANTIATE_TEST_SUITE_P(Modes, DecoderBits,
                         testing::Values(Mode{"F32", false, ComputeMode::kF32, KvType::kF32},
                                         Mode{"F32WithBf16Kv", false, ComputeMode::kF32, KvType::kBf16},
                                         Mode{"QuantisedF32", true, ComputeMode::kF32, KvType::kF32},
                                         Mode{"QuantisedQ8", true, ComputeMode::kQ8, KvType::kBf16}),
                         [](const auto& info) { return info.param.name; });

// Several canonical blocks and quantised weights, where the golden models have one block and F32 weights.
TEST(Decoder, MeetsTheReferenceOverSeveralBlocks) {
  for (bool quantised : {false, true}) {
    const LoadedModel& model = TinyModel(quantised);
    const std::vector<int32_t> tokens = SomeTokens(kTokens);
    ThreadPool pool(2);
    ReferenceDecoder reference(model.config, model.weights, pool);
    const std::vector<double> expected = reference.Append(tokens, [](double) { return true; });
    double norm = 0;
    for (double x : expected) norm += x * x;
    for (const KernelSet& kernels : HostKernels()) {
      Sequence sequence(model, kernels, kTokens);
      const std::vector<float> logits = sequence.LastLogits(sequence.AppendInChunks(tokens, 0));
      double error = 0;
      for (size_t i = 0; i < expected.size(); ++i) error += (logits[i] - expected[i]) * (logits[i] - expected[i]);
      EXPECT_LT(std::sqrt(error / norm), 2e-5) << kernels.name << (quantised ? " quantised" : "");
    }
  }
}

// Answers every query with its own value and keeps account of the calls.
class FakeAttention : public Attention {
 public:
  explicit FakeAttention(int32_t failing_layer = -1) : failing_layer_(failing_layer) {}
  absl::Status Run(int32_t layer, absl::Span<const PositionRun> runs, const float*, const float*, const float*,
                   float* out) override {
    layers.push_back(layer);
    if (layer == failing_layer_) return absl::UnavailableError("rank 1 is gone");
    std::fill_n(out, TotalRows(runs) * 72, 0.5f);
    return absl::OkStatus();
  }
  std::vector<int32_t> layers;

 private:
  const int32_t failing_layer_;
};

class DecoderCalls : public testing::Test {
 protected:
  absl::Status Forward(absl::Span<const int32_t> tokens, FakeAttention& attention) {
    std::vector<float> hidden(tokens.size() * TinyModel(false).config.embedding);
    return decoder_.Forward(RowKind::kGiven, tokens, {PositionRun{5, 5 + static_cast<int64_t>(tokens.size())}},
                            attention, hidden.data(), [&](int32_t layer) { reported_.push_back(layer); });
  }
  ThreadPool pool_{1};
  Decoder decoder_{TinyModel(false).config, TinyModel(false).weights, *SelectKernels("")->dense, ComputeMode::kF32,
                   pool_};
  std::vector<int32_t> reported_;
};

TEST_F(DecoderCalls, ReportsEveryLayer) {
  FakeAttention attention;
  EXPECT_TRUE(Forward({1, 2, 3}, attention).ok());
  EXPECT_THAT(attention.layers, testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(reported_, testing::ElementsAre(0, 1, 2));
}

TEST_F(DecoderCalls, CallsAttentionWithoutRows) {
  FakeAttention attention;
  EXPECT_TRUE(Forward({}, attention).ok());
  EXPECT_THAT(attention.layers, testing::ElementsAre(0, 1, 2));
}

TEST_F(DecoderCalls, ReturnsAttentionsErrorAtOnce) {
  FakeAttention attention(1);
  const absl::Status status = Forward({1, 2}, attention);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(attention.layers, testing::ElementsAre(0, 1));
  EXPECT_THAT(reported_, testing::ElementsAre(0));
}

TEST_F(DecoderCalls, NamesATokenOutsideTheVocabulary) {
  const int32_t vocab = TinyModel(false).config.vocab;
  for (int32_t bad : {-1, vocab}) {
    FakeAttention attention;
    const absl::Status status = Forward({1, bad}, attention);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(std::to_string(bad)));
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(std::to_string(vocab)));
    EXPECT_TRUE(attention.layers.empty());
  }
}

}  // namespace
}  // namespace rondo
