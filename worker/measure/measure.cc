#include "worker/measure/measure.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "model/decoder/decoder.h"
#include "model/sampler/sampler.h"
#include "worker/ring/ring_attention.h"
#include "worker/ring/sequence_kv.h"

namespace rondo {
namespace {

constexpr int64_t kDenseTokens = 512;          // two row blocks of the decoder
constexpr int64_t kAttentionTokens = 4096;     // long enough that its edges hardly count
constexpr size_t kKvBytes = size_t{96} << 20;  // read in a decode step: more than any cache of a rank
constexpr size_t kLinkBytes = size_t{1} << 20;
constexpr size_t kExchangeBytes = size_t{8} << 10;
constexpr int kRepeats = 3;
constexpr absl::Duration kTimeout = absl::Minutes(2);

// A model without attention: what remains is the dense part.
class NoAttention : public Attention {
 public:
  explicit NoAttention(int64_t width) : width_(width) {}
  absl::Status Run(int32_t, absl::Span<const PositionRun> runs, const float*, const float*, const float*,
                   float* out) override {
    std::fill_n(out, TotalRows(runs) * width_, 0.0f);
    return absl::OkStatus();
  }

 private:
  const int64_t width_;
};

class Measurement {
 public:
  explicit Measurement(const WorkerContext& context)
      : context_(context),
        config_(context.model->config),
        decoder_(config_, context.model->weights, *context.kernels.dense, context.compute, *context.pool) {}

  absl::StatusOr<MeasuredRates> Run() {
    absl::Status status;
    for (const auto part : {&Measurement::Dense, &Measurement::Prefill, &Measurement::Decode, &Measurement::Link}) {
      if (status = (this->*part)(); !status.ok()) return status;
    }
    return rates_;
  }

 private:
  int world() const { return context_.transport->world_size(); }

  // Every rank has come here.
  absl::Status Meet() {
    if (world() == 1) return absl::OkStatus();
    std::vector<std::byte> marks(world());
    std::vector<absl::Span<std::byte>> parts;
    for (std::byte& mark : marks) parts.emplace_back(&mark, 1);
    return context_.transport->AllGather(parts, absl::Now() + kTimeout);
  }

  // The slowest rank's best of three.
  absl::StatusOr<double> Seconds(const std::function<absl::Status()>& work) {
    double best = 1e30;
    for (int i = 0; i < kRepeats; ++i) {
      if (absl::Status met = Meet(); !met.ok()) return met;
      const absl::Time begin = absl::Now();
      if (absl::Status status = work(); !status.ok()) return status;
      best = std::min(best, absl::ToDoubleSeconds(absl::Now() - begin));
    }
    std::vector<double> all(world(), best);
    if (world() > 1) {
      std::vector<absl::Span<std::byte>> parts;
      for (double& seconds : all) parts.emplace_back(reinterpret_cast<std::byte*>(&seconds), sizeof(double));
      if (absl::Status gathered = context_.transport->AllGather(parts, absl::Now() + kTimeout); !gathered.ok()) {
        return gathered;
      }
    }
    return *std::max_element(all.begin(), all.end());
  }

  absl::Status Forward(RowKind kind, absl::Span<const int32_t> ids, int64_t position, Attention& attention) {
    hidden_.resize(std::max<size_t>(hidden_.size(), ids.size() * config_.embedding));
    const PositionRun run{position, position + static_cast<int64_t>(ids.size())};
    return decoder_.Forward(kind, ids, {run}, attention, hidden_.data(), [](int32_t) {});
  }

  absl::Status Dense() {
    NoAttention none(int64_t{config_.q_heads} * config_.head_dim);
    std::vector<int32_t> ids(kDenseTokens);
    for (int64_t i = 0; i < kDenseTokens; ++i) ids[i] = static_cast<int32_t>(i * 7919 % config_.vocab);
    const absl::StatusOr<double> rows = Seconds([&] { return Forward(RowKind::kGiven, ids, 0, none); });
    if (!rows.ok()) return rows.status();
    double parameters = 0;
    for (const LayerWeights& layer : context_.model->weights.layers) {
      for (const WeightView* w : {&layer.wq, &layer.wk, &layer.wv, &layer.wo, &layer.gate, &layer.up, &layer.down}) {
        parameters += static_cast<double>(w->rows) * static_cast<double>(w->cols);
      }
    }
    rates_.dense_flops = 2 * parameters * static_cast<double>(kDenseTokens) / *rows;

    std::vector<float> logits(config_.vocab);
    const absl::StatusOr<double> row = Seconds([&]() -> absl::Status {
      for (int i = 0; i < kRows; ++i) {
        if (absl::Status status = Forward(RowKind::kDrawn, {ids.data(), 1}, i, none); !status.ok()) return status;
        decoder_.Logits(hidden_.data(), 1, logits.data());
        if (absl::StatusOr<int32_t> id = Sample({}, 0, 0, logits); !id.ok()) return id.status();
      }
      return absl::OkStatus();
    });
    if (!row.ok()) return row.status();
    rates_.decode_dense_s = *row / kRows;
    return absl::OkStatus();
  }

  absl::Status Prefill() {
    const AttentionShape shape = ShapeOf(config_, *context_.kernels.attention, context_.kv_type);
    const ShardPlan plan = ShardPlan::Zigzag(kAttentionTokens, 1, 0, shape.leaf_level);
    absl::StatusOr<SequenceKv> kv =
        SequenceKv::Create(shape, 1, plan, 0, kAttentionTokens, context_.kernels.attention->memory());
    if (!kv.ok()) return kv.status();
    RingAttention attention(*context_.kernels.attention, *context_.transport, *context_.pool, *kv, plan, 1, {}, never_);
    Fill(kAttentionTokens);
    const PositionRun run{0, kAttentionTokens};
    const absl::StatusOr<double> seconds = Seconds([&] {
      attention.BeginPrefill(0);
      return attention.Run(0, {&run, 1}, q_.data(), k_.data(), k_.data(), out_.data());
    });
    if (!seconds.ok()) return seconds.status();
    const double pairs = static_cast<double>(kAttentionTokens) * static_cast<double>(kAttentionTokens + 1) / 2;
    rates_.attention_flops = 4.0 * config_.q_heads * config_.head_dim * pairs / *seconds;
    return absl::OkStatus();
  }

  // One row over few keys, then over many, in as many layers as the model has: what a key costs, and what is left.
  absl::Status Decode() {
    const double token_bytes =
        static_cast<double>(KvBlockBytes(ShapeOf(config_, *context_.kernels.attention, context_.kv_type))) /
        kBlockTokens * config_.layers;
    const int64_t many =
        std::max<int64_t>(4, static_cast<int64_t>(kKvBytes / token_bytes) / kBlockTokens) * kBlockTokens;
    const absl::StatusOr<double> few_s = DecodeStep(kBlockTokens);
    if (!few_s.ok()) return few_s.status();
    const absl::StatusOr<double> many_s = DecodeStep(many);
    if (!many_s.ok()) return many_s.status();
    rates_.kv_read_bytes_per_s =
        token_bytes * static_cast<double>(many - kBlockTokens) / std::max(1e-9, *many_s - *few_s);
    rates_.decode_attend_s = std::max(0.0, *few_s - token_bytes * kBlockTokens / rates_.kv_read_bytes_per_s);
    return absl::OkStatus();
  }

  // Seconds of one row's attention in all layers at `depth`.
  absl::StatusOr<double> DecodeStep(int64_t depth) {
    const int64_t rows = int64_t{kRows} * kRepeats;
    const ShardPlan plan = ShardPlan::Zigzag(depth, 1, 0, context_.kernels.attention->leaf_level());
    absl::StatusOr<SequenceKv> kv =
        SequenceKv::Create(ShapeOf(config_, *context_.kernels.attention, context_.kv_type), config_.layers, plan, 0,
                           depth + rows, context_.kernels.attention->memory());
    if (!kv.ok()) return kv.status();
    Fill(depth);
    const PositionRun prompt{0, depth};
    for (int32_t layer = 0; layer < config_.layers; ++layer) kv->Store(layer, {&prompt, 1}, k_.data(), k_.data());
    RingAttention attention(*context_.kernels.attention, *context_.transport, *context_.pool, *kv, plan, 1, {}, never_);
    int64_t position = depth;
    const absl::StatusOr<double> seconds = Seconds([&]() -> absl::Status {
      for (int row = 0; row < kRows; ++row, ++position) {
        const PositionRun run{position, position + 1};
        attention.BeginDecode(position);
        for (int32_t layer = 0; layer < config_.layers; ++layer) {
          absl::Status status = attention.Run(layer, {&run, 1}, q_.data(), k_.data(), k_.data(), out_.data());
          if (!status.ok()) return status;
        }
      }
      return absl::OkStatus();
    });
    return seconds.ok() ? absl::StatusOr<double>(*seconds / kRows) : seconds;
  }

  absl::Status Link() {
    if (world() == 1) return absl::OkStatus();
    Transport& t = *context_.transport;
    const int to = (t.rank() + 1) % world(), from = (t.rank() + world() - 1) % world();
    std::vector<std::byte> send(kLinkBytes), recv(kLinkBytes);
    const absl::StatusOr<double> big = Seconds([&]() -> absl::Status {
      for (int i = 0; i < kRows; ++i) {
        const absl::StatusOr<Transport::Pending> posted = t.SendRecv(to, send, from, absl::MakeSpan(recv));
        if (!posted.ok()) return posted.status();
        if (absl::StatusOr<size_t> got = t.Wait(*posted, absl::Now() + kTimeout); !got.ok()) return got.status();
      }
      return absl::OkStatus();
    });
    if (!big.ok()) return big.status();
    rates_.link_bytes_per_s = static_cast<double>(kLinkBytes) * kRows / *big;
    std::vector<std::vector<std::byte>> storage(world(), std::vector<std::byte>(kExchangeBytes));
    std::vector<absl::Span<std::byte>> parts;
    for (std::vector<std::byte>& part : storage) parts.push_back(absl::MakeSpan(part));
    const absl::StatusOr<double> small = Seconds([&]() -> absl::Status {
      for (int i = 0; i < kRows; ++i) {
        if (absl::Status status = t.AllGather(parts, absl::Now() + kTimeout); !status.ok()) return status;
      }
      return absl::OkStatus();
    });
    if (!small.ok()) return small.status();
    rates_.link_latency_s = *small / kRows;
    return absl::OkStatus();
  }

  // Any numbers will do, as long as none is a denormal.
  void Fill(int64_t tokens) {
    q_.assign(tokens * config_.q_heads * config_.head_dim, 0.25f);
    k_.resize(tokens * config_.kv_heads * config_.head_dim);
    for (size_t i = 0; i < k_.size(); ++i) k_[i] = 0.01f * static_cast<float>(static_cast<int>(i * 31 % 200) - 100);
    out_.resize(q_.size());
  }

  static constexpr int kRows = 8;

  const WorkerContext& context_;
  const ModelConfig& config_;
  const std::atomic<bool> never_{false};
  Decoder decoder_;
  MeasuredRates rates_;
  std::vector<float> hidden_, q_, k_, out_;
};

}  // namespace

absl::StatusOr<MeasuredRates> MeasureRates(const WorkerContext& context) { return Measurement(context).Run(); }

std::string MeasuredJson(const MeasuredRates& r, const WorkerContext& context) {
  return absl::StrFormat(
      R"({"ranks": %d, "threads": %d, "kernels": "%s", "compute": "%s", "kv_type": "%s", "dense_flops": %.6g, )"
      R"("attention_flops": %.6g, "decode_dense_s": %.6g, "decode_attend_s": %.6g, "kv_read_bytes_per_s": %.6g, )"
      R"("link_bytes_per_s": %.6g, "link_latency_s": %.6g})",
      context.transport->world_size(), context.pool->threads(), Sv(context.kernels.name), Sv(Name(context.compute)),
      Sv(Name(context.kv_type)), r.dense_flops, r.attention_flops, r.decode_dense_s, r.decode_attend_s,
      r.kv_read_bytes_per_s, r.link_bytes_per_s, r.link_latency_s);
}

}  // namespace rondo
