// The law for whole models on GPUs that are not there: attention and dense layers of the CUDA kernels on the emulator,
// behind the step loops of groups of one to three ranks. What is tested is everything of a GPU rank but the CUDA
// runtime and cuBLASLt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/backend/cuda_attention.h"
#include "kernels/cuda/backend/cuda_dense.h"
#include "model/decoder/decoder.h"
#include "tests/kernels/cuda/backend/emulated_dense.h"
#include "tests/kernels/cuda/backend/emulated_gpu.h"
#include "tests/testing/staged_transport.h"
#include "tests/testing/test_data.h"
#include "tests/testing/tiny_llama.h"
#include "tests/worker/session/law_jobs.h"

namespace rondo::cuda {
namespace {

using rondo::testing::JobRecord;
using rondo::testing::RandomPrompt;
using rondo::testing::Records;
using rondo::testing::SessionGroup;
using rondo::testing::SessionOptions;
using rondo::testing::TestModel;

// Weights that can be packed, or some that cannot. One layer and two heads: the emulator is slow.
const TestModel& Model(bool half) {
  static const auto* models = [] {
    auto* both = new std::vector<TestModel>;
    for (const bool with_half : {false, true}) {
      const std::string path = TestTempDir() + (with_half ? "/half.gguf" : "/packed.gguf");
      const absl::Status written = WriteTinyLlama(
          path, {.quantised = true, .half = with_half, .layers = 1, .q_heads = 2, .kv_heads = 1, .head_dim = 64});
      RONDO_CHECK(written.ok());
      both->push_back(rondo::testing::LoadTestModel(path).value());
    }
    return both;
  }();
  return (*models)[half];
}

// A GPU and a model on it.
struct Rank {
  explicit Rank(const TestModel& model)
      : attention(gpu), emulated(gpu), dense(CudaDense::Create(emulated, model.model->weights).value()) {}
  EmulatedGpu gpu;
  CudaAttention attention;
  EmulatedDense emulated;
  std::unique_ptr<CudaDense> dense;
};

Records OnGpus(const TestModel& model, int world, int64_t chunk, const std::vector<StartJob>& jobs) {
  std::vector<std::unique_ptr<Rank>> ranks;
  SessionOptions options;
  options.world = world;
  options.prefill_chunk = chunk;
  options.compute = ComputeMode::kBf16;
  options.kv_type = KvType::kBf16;
  for (int r = 0; r < world; ++r) {
    ranks.push_back(std::make_unique<Rank>(model));
    options.kernels.push_back({ranks[r]->attention.name(), &ranks[r]->attention, ranks[r]->dense.get()});
  }
  options.decorate = [&](int rank, Transport& inner) {
    return std::make_unique<StagedTransport>(inner, ranks[rank]->gpu);
  };
  const absl::StatusOr<Records> records = RunTogether(model, options, jobs);
  RONDO_CHECK(records.ok());
  return *records;
}

// Two jobs whose rows meet in one group: one over three leaves, one of another length and sampled.
std::vector<StartJob> Jobs() {
  StartJob large;
  large.id = "1100";
  large.prompt = RandomPrompt(1100, 1);
  large.max_tokens = 3;
  large.want_logits = true;
  StartJob small;
  small.id = "129-sampled";
  small.prompt = RandomPrompt(129, 2);
  small.max_tokens = 2;
  small.sampling = {.temperature = 1.0f, .seed = 3};
  return {large, small};
}

TEST(ModelOnGpusTest, RingsGiveTheBitsOfOneGpu) {
  for (const bool half : {false, true}) {
    const Records want = OnGpus(Model(half), 1, 0, Jobs());
    for (const int world : {2, 3}) {
      SCOPED_TRACE(::testing::Message() << world << " ranks" << (half ? ", half" : ""));
      EXPECT_EQ(Differences(OnGpus(Model(half), world, world == 3 ? 700 : 0, Jobs()), want), "");
    }
  }
}

// The float64 reference decoder over the same file; the tokens are given, so that the two stay together.
TEST(ModelOnGpusTest, LogitsAreThoseOfTheReference) {
  for (const bool half : {false, true}) {
    StartJob job;
    job.id = "forced";
    job.prompt = RandomPrompt(150, 4);
    job.forced_tokens = RandomPrompt(4, 5);
    job.max_tokens = 4;
    job.want_logits = true;
    const Records got = OnGpus(Model(half), 1, 0, {job});
    job.reference = true;
    SessionOptions on_cpu;
    const absl::StatusOr<Records> want = RunTogether(Model(half), on_cpu, {job});
    ASSERT_TRUE(want.ok()) << want.status();
    const std::vector<std::vector<float>>& exact = want->at("forced").logits;
    const std::vector<std::vector<float>>& logits = got.at("forced").logits;
    ASSERT_EQ(logits.size(), 4u);
    for (size_t step = 0; step < logits.size(); ++step) {
      double error = 0, norm = 0;
      for (size_t i = 0; i < exact[step].size(); ++i) {
        error += std::pow(logits[step][i] - exact[step][i], 2);
        norm += std::pow(exact[step][i], 2);
      }
      // Each operand of a product is rounded by up to 2^-9 of itself, and errors of a few products in a row add up.
      EXPECT_LT(std::sqrt(error / norm), 0.01) << step;
    }
  }
}

// Answers every query with the same row.
class NoAttention : public Attention {
 public:
  absl::Status Run(int32_t, absl::Span<const PositionRun> runs, const float*, const float*, const float*,
                   float* out) override {
    std::fill_n(out, TotalRows(runs) * 128, 0.5f);
    return absl::OkStatus();
  }
};

// What a step of decode costs in launches, beside attention: docs/GPU.md has the number.
TEST(ModelOnGpusTest, ADecodeStepIsThirteenLaunchesALayer) {
  Rank rank(Model(false));
  const LoadedModel& model = *Model(false).model;
  ThreadPool pool(1);
  Decoder decoder(model.config, model.weights, *rank.dense, ComputeMode::kBf16, pool);
  NoAttention attention;
  std::vector<float> hidden(model.config.embedding), logits(model.config.vocab);
  rank.emulated.TakeLaunches();
  const int64_t copies = rank.gpu.fenced().copies();
  ASSERT_TRUE(
      decoder.Forward(RowKind::kDrawn, {7}, {PositionRun{5, 6}}, attention, hidden.data(), [](int32_t) {}).ok());
  std::map<std::string, int> expected = {{"norm", 2}, {"few rows", 7}, {"rope", 2}, {"gate", 1}, {"add", 1}};
  expected["lookup"] = 1;
  expected["norm"] += 1;  // after the last layer
  EXPECT_EQ(rank.emulated.TakeLaunches(), expected);
  // q, k, v and attended rows; once a step the id, cosines, sines and the hidden row.
  EXPECT_EQ(rank.gpu.fenced().copies() - copies, 4 + 4);
  decoder.Logits(hidden.data(), 1, logits.data());
  EXPECT_EQ(rank.emulated.TakeLaunches(), (std::map<std::string, int>{{"few rows", 1}}));
}

// A rank's memory decides whether a job begins, on all ranks alike; those that fit go on.
TEST(ModelOnGpusTest, RowsThatDoNotFitEndTheirJobAlone) {
  const TestModel& model = Model(false);
  Rank first(model), second(model);
  // Room for the keys and values of 10,000 tokens (256 bytes each) and as many twice on their way round the ring, not
  // for rows beside them (384 bytes each, and angles).
  second.gpu.set_memory(second.gpu.used() + (size_t{10} << 20));
  SessionOptions options;
  options.world = 2;
  options.compute = ComputeMode::kBf16;
  options.kv_type = KvType::kBf16;
  options.kernels = {{first.attention.name(), &first.attention, first.dense.get()},
                     {second.attention.name(), &second.attention, second.dense.get()}};
  options.decorate = [&](int rank, Transport& inner) {
    return std::make_unique<StagedTransport>(inner, rank == 0 ? first.gpu : second.gpu);
  };
  SessionGroup group(model, options);
  std::vector<StartJob> jobs = Jobs();
  jobs[0].prompt = RandomPrompt(20000, 6);
  const absl::StatusOr<JobRecord> large = group.RunJob(jobs[0]);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ(large->result.error.code(), absl::StatusCode::kResourceExhausted) << large->result.error;
  EXPECT_NE(std::string(large->result.error.message()).find("rank 1 could not start the job: device memory: "),
            std::string::npos)
      << large->result.error;
  const absl::StatusOr<JobRecord> small = group.RunJob(jobs[1]);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ(small->result.finish_reason, "length");
}

}  // namespace
}  // namespace rondo::cuda
