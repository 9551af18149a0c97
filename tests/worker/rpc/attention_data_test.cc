// A rank's data server with generated stubs, as any client has them: rows in, attention out, and everything that may be
// wrong with a piece.
#include "worker/rpc/attention_data.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/bf16.h"
#include "base/thread_pool.h"
#include "kernels/registry.h"
#include "rondo/v1/attention.grpc.pb.h"
#include "worker/transport/loopback_transport.h"

namespace rondo {
namespace {

using testing::HasSubstr;

constexpr int64_t kTokens = 700;
constexpr int kHeads = 4, kKvHeads = 2, kDim = 8;

std::vector<float> Random(int64_t rows, int heads, int seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(rows * heads * kDim);
  for (float& v : values) v = normal(random);
  return values;
}

class AttentionDataTest : public testing::Test {
 protected:
  void SetUp() override {
    store_.SetEpoch(7);
    auto server = AttentionDataServer::Start("127.0.0.1:0", store_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    AttentionJobSpec spec;
    spec.q_tokens = spec.kv_tokens = kTokens;
    spec.shape = {kHeads, kKvHeads, kDim, KvType::kF32, 1 / std::sqrt(static_cast<float>(kDim)), {}};
    spec.want_lse = true;
    auto job = AttentionTensors::Create(spec, 1, *SelectKernels("portable")->attention, *transport_, pool_);
    ASSERT_TRUE(job.ok()) << job.status();
    job_ = *job;
    store_.Add("job", "secret", job_);
    stub_ = v1::AttentionData::NewStub(grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  }

  static v1::JobRef Ref() {
    v1::JobRef ref;
    ref.set_job_id("job");
    ref.set_token("secret");
    ref.set_epoch(7);
    return ref;
  }
  static v1::TensorPiece Piece(v1::Tensor tensor, int64_t first_row, const float* rows, int64_t count) {
    v1::TensorPiece piece;
    *piece.mutable_job() = Ref();
    piece.set_tensor(tensor);
    piece.set_first_row(first_row);
    piece.set_data(rows, count * (tensor == v1::Q ? kHeads : kKvHeads) * kDim * sizeof(float));
    return piece;
  }
  grpc::Status Put(const std::vector<v1::TensorPiece>& pieces, v1::PutReply* reply = nullptr) {
    grpc::ClientContext context;
    v1::PutReply mine;
    const auto writer = stub_->Put(&context, reply == nullptr ? &mine : reply);
    for (const v1::TensorPiece& piece : pieces) {
      if (!writer->Write(piece)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }
  grpc::Status Get(const v1::GetRequest& request, std::vector<v1::TensorPiece>* pieces) {
    grpc::ClientContext context;
    const auto reader = stub_->Get(&context, request);
    v1::TensorPiece piece;
    while (reader->Read(&piece)) pieces->push_back(piece);
    return reader->Finish();
  }
  std::vector<v1::TensorPiece> Pieces(v1::Tensor tensor, const std::vector<float>& rows, int64_t step) {
    const int64_t row = static_cast<int64_t>(rows.size()) / kTokens;
    std::vector<v1::TensorPiece> pieces;
    for (int64_t at = 0; at < kTokens; at += step) {
      pieces.push_back(Piece(tensor, at, rows.data() + at * row, std::min(step, kTokens - at)));
      if (at > 0) pieces.back().clear_job();
    }
    return pieces;
  }

  LoopbackHub hub_{1};
  std::unique_ptr<Transport> transport_ = hub_.Connect(0);
  ThreadPool pool_{1};
  AttentionStore store_;
  std::unique_ptr<AttentionDataServer> server_;
  std::shared_ptr<AttentionTensors> job_;
  std::unique_ptr<v1::AttentionData::Stub> stub_;
};

TEST_F(AttentionDataTest, RowsInAndAttentionOut) {
  const std::vector<float> q = Random(kTokens, kHeads, 1), k = Random(kTokens, kKvHeads, 2),
                           v = Random(kTokens, kKvHeads, 3);
  EXPECT_THAT(std::string(job_->BeginRun().message()), HasSubstr("Q has 0 of 700 rows, K has 0 of 700 rows"));
  // Three streams at once, pieces of odd sizes, one of them a second time.
  std::vector<std::thread> streams;
  for (const auto& [tensor, rows, step] :
       {std::tuple(v1::Q, &q, int64_t{37}), std::tuple(v1::K, &k, int64_t{700}), std::tuple(v1::V, &v, int64_t{1})}) {
    streams.emplace_back([this, tensor = tensor, rows = rows, step = step] {
      v1::PutReply reply;
      EXPECT_TRUE(Put(Pieces(tensor, *rows, step), &reply).ok());
      EXPECT_EQ(reply.bytes(), rows->size() * sizeof(float));
    });
  }
  for (std::thread& stream : streams) stream.join();
  EXPECT_TRUE(Put({Piece(v1::Q, 5, &q[5 * kHeads * kDim], 2)}).ok());

  ASSERT_TRUE(job_->BeginRun().ok());
  EXPECT_EQ(Put({Piece(v1::Q, 0, q.data(), 1)}).error_code(), grpc::FAILED_PRECONDITION);
  RingRunOptions options;
  options.job = 1;
  const std::atomic<bool> cancelled{false};
  ASSERT_TRUE(job_->Run(options, cancelled).ok());

  v1::GetRequest request;
  *request.mutable_job() = Ref();
  request.set_tensor(v1::O);
  std::vector<v1::TensorPiece> pieces;
  ASSERT_TRUE(Get(request, &pieces).ok());
  std::string o;
  for (const v1::TensorPiece& piece : pieces) {
    EXPECT_EQ(piece.first_row() * kHeads * kDim * 4, static_cast<int64_t>(o.size()));
    o += piece.data();
  }
  ASSERT_EQ(o.size(), q.size() * sizeof(float));
  request.set_tensor(v1::LSE);
  request.set_first_row(699);
  request.set_rows(1);
  pieces.clear();
  ASSERT_TRUE(Get(request, &pieces).ok());
  ASSERT_EQ(pieces.size(), 1u);
  ASSERT_EQ(pieces[0].data().size(), kHeads * sizeof(float));

  // The last row of the last head, by plain loops.
  double sum = 0;
  std::vector<double> out(kDim);
  const float* const query = &q[((kTokens - 1) * kHeads + kHeads - 1) * kDim];
  for (int64_t i = 0; i < kTokens; ++i) {
    const int64_t at = (i * kKvHeads + kKvHeads - 1) * kDim;
    double score = 0;
    for (int d = 0; d < kDim; ++d) score += double{query[d]} * k[at + d];
    const double weight = std::exp(score / std::sqrt(kDim));
    sum += weight;
    for (int d = 0; d < kDim; ++d) out[d] += weight * v[at + d];
  }
  float got[kDim], lse;
  std::memcpy(got, o.data() + o.size() - sizeof(got), sizeof(got));
  std::memcpy(&lse, pieces[0].data().data() + (kHeads - 1) * sizeof(float), sizeof(lse));
  for (int d = 0; d < kDim; ++d) EXPECT_NEAR(got[d], out[d] / sum, 1e-5);
  EXPECT_NEAR(lse, std::log(sum), 1e-5);
}

TEST_F(AttentionDataTest, BadPiecesAreRefusedWithTheNumbers) {
  const std::vector<float> q = Random(kTokens, kHeads, 1);
  const auto refused = [&](v1::TensorPiece piece, const char* what, grpc::StatusCode code) {
    const grpc::Status status = Put({piece});
    EXPECT_EQ(status.error_code(), code) << what;
    EXPECT_THAT(status.error_message(), HasSubstr(what));
  };
  const v1::TensorPiece good = Piece(v1::Q, 0, q.data(), 2);
  v1::TensorPiece p = good;
  p.mutable_job()->set_token("guess");
  refused(p, "job.token", grpc::PERMISSION_DENIED);
  p = good;
  p.mutable_job()->set_job_id("other");
  refused(p, "\"other\"", grpc::NOT_FOUND);
  p = good;
  p.mutable_job()->set_epoch(6);
  refused(p, "6 is over, this rank is in epoch 7", grpc::UNAVAILABLE);
  p = good;
  p.clear_job();
  refused(p, "the first piece must name it", grpc::INVALID_ARGUMENT);
  p = good;
  p.mutable_data()->pop_back();
  refused(p, "255 bytes are not whole rows of Q, which have 128", grpc::INVALID_ARGUMENT);
  p.clear_data();
  refused(p, "0 bytes", grpc::INVALID_ARGUMENT);
  p = good;
  p.set_tensor(v1::O);
  refused(p, "O cannot be put", grpc::INVALID_ARGUMENT);
  p.set_tensor(static_cast<v1::Tensor>(9));
  refused(p, "tensor: 9", grpc::INVALID_ARGUMENT);
  p = good;
  p.set_type(static_cast<v1::ElementType>(5));
  refused(p, "type: 5", grpc::INVALID_ARGUMENT);
  for (const int64_t row : {int64_t{-1}, int64_t{699}, int64_t{700}, std::numeric_limits<int64_t>::max(),
                            std::numeric_limits<int64_t>::min()}) {
    p = good;
    p.set_first_row(row);
    refused(p, "[0, 700)", grpc::OUT_OF_RANGE);
  }
  // Nothing of it has arrived.
  EXPECT_THAT(std::string(job_->BeginRun().message()), HasSubstr("Q has 0 of 700 rows"));

  v1::GetRequest request;
  *request.mutable_job() = Ref();
  request.set_tensor(v1::O);
  std::vector<v1::TensorPiece> pieces;
  EXPECT_EQ(Get(request, &pieces).error_code(), grpc::FAILED_PRECONDITION);
  request.set_rows(701);
  EXPECT_EQ(Get(request, &pieces).error_code(), grpc::OUT_OF_RANGE);
  request.set_rows(-1);
  EXPECT_EQ(Get(request, &pieces).error_code(), grpc::INVALID_ARGUMENT);
  request.set_tensor(v1::K);
  EXPECT_EQ(Get(request, &pieces).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_TRUE(pieces.empty());
}

TEST_F(AttentionDataTest, PiecesUpToTheLimitAndABrokenStream) {
  // A stream that is cut off leaves what had arrived, and no harm.
  {
    grpc::ClientContext context;
    v1::PutReply reply;
    const auto writer = stub_->Put(&context, &reply);
    const std::vector<float> q = Random(kTokens, kHeads, 1);
    writer->Write(Piece(v1::Q, 0, q.data(), 100));
    context.TryCancel();
    writer->Finish();
  }
  v1::TensorPiece large = Piece(v1::Q, 0, nullptr, 0);
  large.set_data(std::string(4 << 20, 'x'));
  EXPECT_EQ(Put({large}).error_code(), grpc::OUT_OF_RANGE);  // taken in, and too many rows
  large.set_data(std::string((4 << 20) + 100000, 'x'));
  EXPECT_EQ(Put({large}).error_code(), grpc::RESOURCE_EXHAUSTED);
}

TEST(UploadWatch, OnlyABreakWithNothingAfterItIsAClientThatLeft) {
  const absl::Time t = absl::UnixEpoch(), later = t + UploadWatch::kReturn;
  UploadWatch watch;
  EXPECT_FALSE(watch.Left(later)) << "nothing was ever sent";
  watch.Began();
  watch.Began();
  watch.Ended(true, t);
  EXPECT_FALSE(watch.Left(later)) << "the other stream goes on";
  watch.Ended(true, t);
  EXPECT_FALSE(watch.Left(later - absl::Nanoseconds(1))) << "it may come back";
  EXPECT_TRUE(watch.Left(later));
  EXPECT_TRUE(watch.Left(later)) << "and stays gone";
  watch.Began();
  EXPECT_FALSE(watch.Left(later)) << "it came back";
  watch.Ended(false, later);
  EXPECT_FALSE(watch.Left(later + absl::Hours(1000))) << "and ended by itself";
}

TEST_F(AttentionDataTest, AStreamThatBreaksOffIsAClientThatLeft) {
  const std::vector<float> q = Random(kTokens, kHeads, 1);
  const absl::Time much_later = absl::Now() + absl::Hours(1);
  EXPECT_TRUE(Put({Piece(v1::Q, 0, q.data(), 100)}).ok());
  v1::TensorPiece wrong = Piece(v1::Q, 0, q.data(), 1);
  wrong.set_type(static_cast<v1::ElementType>(5));
  EXPECT_FALSE(Put({Piece(v1::Q, 0, q.data(), 1), wrong}).ok());
  EXPECT_TRUE(store_.Left(much_later).empty()) << "both clients heard the reply";
  job_->TakeFed();

  auto context = std::make_unique<grpc::ClientContext>();
  v1::PutReply reply;
  auto writer = stub_->Put(context.get(), &reply);
  ASSERT_TRUE(writer->Write(Piece(v1::Q, 0, q.data(), 100)));
  for (int i = 0; i < 1000 && !job_->TakeFed(); ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_TRUE(store_.Left(much_later).empty());
  context->TryCancel();
  writer->Finish();
  std::vector<std::string> left;
  for (int i = 0; i < 1000 && left.empty(); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
    left = store_.Left(much_later);
  }
  EXPECT_EQ(left, std::vector<std::string>{"job"});
  store_.Remove("job");
  EXPECT_TRUE(store_.Left(much_later).empty());
}

TEST_F(AttentionDataTest, Bfloat16IsWidened) {
  std::vector<uint16_t> narrow(kTokens * kHeads * kDim);
  for (size_t i = 0; i < narrow.size(); ++i) narrow[i] = FloatToBf16(static_cast<float>(i % 100));
  v1::TensorPiece piece = Piece(v1::Q, 0, nullptr, 0);
  piece.set_type(v1::BF16);
  piece.set_data(narrow.data(), narrow.size() * 2);
  EXPECT_TRUE(Put({piece}).ok());
  EXPECT_THAT(std::string(job_->BeginRun().message()), testing::Not(HasSubstr("Q has")));
}

}  // namespace
}  // namespace rondo
