// TFLOP/s of every prefill kernel and of cuDNN on the same tensors, launches alternating, with the errors of both.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "bench/gpu/lines.h"
#include "bench/gpu/run_attention.h"
#include "bench/gpu/sections.h"
#include "kernels/cuda/cudnn/sdpa.h"

namespace rondo::gpu_check {
namespace {

constexpr int kRowsLookedAt = 6;
constexpr double kBudgetMs = 400;  // of one line of the table

// cuDNN on a problem's tensors.
class Cudnn {
 public:
  Cudnn(const Problem& problem, cuda::CudnnSdpaForm form)
      : problem_(problem),
        out_(static_cast<size_t>(problem.shape().rows) * problem.shape().q_heads * problem.shape().head_dim),
        lse_(static_cast<size_t>(problem.shape().rows) * problem.shape().q_heads) {
    const Shape& s = problem.shape();
    auto plan =
        cuda::CudnnSdpa::Create({s.q_heads, s.kv_heads, s.head_dim, s.rows, s.tokens, s.mask.causal, s.scale()}, form);
    if (!plan.ok()) {
      why_ = plan.status().ToString();
      return;
    }
    plan_ = *std::move(plan);
    workspace_ = std::make_unique<DeviceArray<uint8_t>>(plan_->workspace_bytes());
    out_.Poison();
    lse_.Poison();
    if (const absl::Status ran = Run(); !ran.ok()) why_ = ran.ToString();
    RequireFinished("cuDNN attention");
  }
  // Empty: it is there and has run once.
  const std::string& why() const { return why_; }
  void Queue() {
    if (const absl::Status ran = Run(); !ran.ok()) Fail(ran.ToString());
  }
  RowErrors Errors(const std::vector<Sample>& samples, const std::vector<OracleRow>& oracles) const {
    const Shape& s = problem_.shape();
    RowErrors errors;
    for (size_t i = 0; i < samples.size(); ++i) {
      const auto [row, head] = samples[i];
      std::vector<float> out;
      const size_t begin = (static_cast<size_t>(row) * s.q_heads + head) * s.head_dim;
      for (const uint16_t bits : out_.ToHost(begin, s.head_dim)) out.push_back(Bf16ToFloat(bits));
      const size_t lse = static_cast<size_t>(head) * s.rows + row;  // heads first
      AddErrors(oracles[i], out, lse_.ToHost(lse, 1).front(), &errors);
    }
    return errors;
  }

 private:
  absl::Status Run() {
    return plan_->Run({problem_.q(), problem_.k(), problem_.v(), out_.get(), lse_.get(), workspace_->get()}, nullptr);
  }

  const Problem& problem_;
  std::string why_;
  std::unique_ptr<cuda::CudnnSdpa> plan_;
  std::unique_ptr<DeviceArray<uint8_t>> workspace_;
  DeviceArray<uint16_t> out_;
  DeviceArray<float> lse_;
};

// As the graph, which every version 9 and every framework runs; else, without a mask, as one operation. The engine
// behind is the same. Null with `why` where neither works.
std::unique_ptr<Cudnn> MakeCudnn(const Problem& problem, std::string* why) {
  for (const auto form : {cuda::CudnnSdpaForm::kGraph, cuda::CudnnSdpaForm::kOperation}) {
    if (form == cuda::CudnnSdpaForm::kOperation && problem.shape().mask.causal) continue;
    auto cudnn = std::make_unique<Cudnn>(problem, form);
    if (cudnn->why().empty()) return cudnn;
    *why = cudnn->why();
  }
  return nullptr;
}

void Say(const char* name, const Shape& shape, double ms, double cudnn_ms, const RowErrors& errors, double cudnn_rms) {
  Line("row")
      .Text("kernel", name)
      .Count("head_dim", shape.head_dim)
      .Bool("causal", shape.mask.causal)
      .Count("tokens", shape.tokens)
      .Number("ms", ms)
      .Number("tflops", Flops(shape) / ms * 1e-9)
      .Number("percent_of_cudnn", cudnn_ms > 0 ? 100 * cudnn_ms / ms : NAN)
      .Bool("pass", errors.fine())
      .Number("out_error", errors.out)
      .Number("lse_error", errors.lse)
      .Number("out_rms_of_cudnn", cudnn_rms > 0 ? errors.Rms() / cudnn_rms : NAN)
      .Say();
}

void MeasureShape(const Shape& shape, bool with_cudnn) {
  const Problem problem(shape, 11);
  std::vector<AttentionKernel> kernels;
  for (const AttentionKernel& kernel : PrefillKernels()) {
    if (Has(kernel, shape.head_dim)) kernels.push_back(kernel);
  }
  const FinishedRows rows(shape, false);
  std::vector<Launch> launches;
  for (const AttentionKernel& kernel : kernels) {
    cuda::AttentionArgs args = problem.Args();
    args.output = rows.Args();
    launches.emplace_back(kernel, args, shape.head_dim);
  }
  std::string why = "left out";
  const std::unique_ptr<Cudnn> cudnn = with_cudnn ? MakeCudnn(problem, &why) : nullptr;
  if (cudnn == nullptr) Line("absent").Text("what", "cuDNN, " + shape.Words()).Text("why", why).Say();

  std::vector<std::function<void()>> works;
  for (const Launch& launch : launches) works.push_back([&launch] { launch.Queue(); });
  if (cudnn != nullptr) works.push_back([&cudnn] { cudnn->Queue(); });
  double round_ms = 0;
  for (const double ms : MedianMs(works, 1)) round_ms += ms;
  const std::vector<double> ms = MedianMs(works, RoundsFor(round_ms, kBudgetMs));

  const std::vector<Sample> samples = Samples(shape, kRowsLookedAt);
  std::vector<OracleRow> oracles;
  for (const Sample& sample : samples) oracles.push_back(problem.Oracle(sample.row, sample.head));
  RowErrors cudnn_errors;
  if (cudnn != nullptr) {
    cudnn_errors = cudnn->Errors(samples, oracles);
    Say("cuDNN", shape, ms.back(), 0, cudnn_errors, 0);
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    FinishedRows fresh(shape, false);
    AttendFinished(kernels[i], problem, fresh);
    RowErrors errors;
    for (size_t s = 0; s < samples.size(); ++s) {
      AddErrors(oracles[s], fresh.Out(samples[s].row, samples[s].head), fresh.Lse(samples[s].row, samples[s].head),
                &errors);
    }
    Say(kernels[i].name, shape, ms[i], cudnn != nullptr ? ms.back() : 0, errors, cudnn_errors.Rms());
  }
}

void MeasureTable(bool with_cudnn) {
  for (const int64_t tokens : {2048, 4096, 8192, 16384, 32768}) {
    for (const int head_dim : {128, 64, 256}) {
      for (const bool causal : {false, true}) {
        const Shape shape{.head_dim = head_dim, .rows = tokens, .tokens = tokens, .mask = {.causal = causal}};
        if (!Fits(3 * ProblemBytes(shape))) {
          Line("absent").Text("what", shape.Words()).Text("why", "does not fit the card's free memory").Say();
          continue;
        }
        MeasureShape(shape, with_cudnn);
      }
    }
  }
}

}  // namespace

void MeasureSpeed() { MeasureTable(true); }
void MeasureSpeedAlone() { MeasureTable(false); }

}  // namespace rondo::gpu_check
