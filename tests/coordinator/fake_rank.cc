#include "tests/coordinator/fake_rank.h"

#include <chrono>

namespace rondo::coordinator {
namespace {
constexpr std::chrono::seconds kPatience{10};
}  // namespace

v1::Hello MakeHello(const std::string& launch, uint32_t rank, uint32_t world) {
  v1::Hello hello;
  hello.set_launch_id(launch);
  hello.set_rank(rank);
  hello.set_world_size(world);
  hello.set_host("testhost");
  hello.set_pid(1000 + rank);
  hello.set_kernels("avx2");
  hello.set_threads(1);
  hello.set_kv_memory_bytes(1 << 20);
  hello.set_transport("loopback");
  hello.set_want_model_header(rank == 0);
  v1::Fingerprint* f = hello.mutable_fingerprint();
  f->set_version("1");
  f->set_model_sha256("abc");
  f->set_compute("f32");
  f->set_kv_type("f32");
  f->set_kernel_family("cpu");
  f->set_kv_block_bytes_per_token(16);
  return hello;
}

FakeRank::FakeRank(const std::string& address, const v1::Hello& hello, const std::string& header)
    : stub_(v1::Group::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {
  stream_ = stub_->Join(&context_);
  v1::RankMessage first;
  *first.mutable_hello() = hello;
  Write(first);
  for (size_t at = 0; hello.rank() == 0 && at < header.size(); at += 4096) {
    v1::RankMessage piece;
    piece.mutable_model_header()->set_data(header.substr(at, 4096));
    piece.mutable_model_header()->set_last(at + 4096 >= header.size());
    piece.mutable_model_header()->set_file_name("tiny.gguf");
    Write(piece);
  }
  reader_ = std::thread([this] {
    Message message;
    while (stream_->Read(&message)) {
      const std::lock_guard lock(mutex_);
      inbox_.push_back(message);
      wake_.notify_all();
    }
    const std::lock_guard lock(mutex_);
    closed_ = true;
    wake_.notify_all();
  });
  heart_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      wake_.wait_for(lock, std::chrono::milliseconds(50));
      if (!beating_ || epoch_ == 0 || stop_) continue;
      lock.unlock();
      v1::RankMessage beat;
      beat.mutable_heartbeat()->set_kv_used_bytes(77);
      Write(beat);
      lock.lock();
    }
  });
}

FakeRank::~FakeRank() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  heart_.join();
  context_.TryCancel();
  reader_.join();
  stream_->Finish();
}

FakeRank::Message FakeRank::WaitFor(const std::function<bool(const Message&)>& wanted) {
  std::unique_lock lock(mutex_);
  Message found;
  wake_.wait_for(lock, kPatience, [&] {
    for (auto it = inbox_.begin(); it != inbox_.end(); ++it) {
      if (!wanted(*it)) continue;
      found = *it;
      inbox_.erase(inbox_.begin(), it + 1);
      return true;
    }
    return closed_;
  });
  return found;
}

void FakeRank::Left(const std::string& job) {
  v1::RankMessage beat;
  beat.mutable_heartbeat()->add_left_jobs(job);
  Write(beat);
}

FakeRank::Message FakeRank::WaitWelcome() {
  Message welcome = WaitFor([](const Message& m) { return m.has_welcome(); });
  epoch_ = welcome.epoch();
  return welcome;
}

FakeRank::Message FakeRank::WaitStart() {
  return WaitFor([](const Message& m) { return m.has_start(); });
}

size_t FakeRank::Count(const std::function<bool(const Message&)>& wanted) {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const Message& m : inbox_) count += wanted(m);
  return count;
}

bool FakeRank::WaitClosed() {
  std::unique_lock lock(mutex_);
  return wake_.wait_for(lock, kPatience, [this] { return closed_; });
}

void FakeRank::Write(v1::RankMessage message, int64_t epoch_offset) {
  message.set_epoch(epoch_ + static_cast<uint64_t>(epoch_offset));
  const std::lock_guard lock(write_mutex_);
  stream_->Write(message);
}

void FakeRank::Token(const std::string& job, uint32_t step, int32_t token, bool end, int64_t epoch_offset) {
  v1::RankMessage m;
  m.mutable_token()->set_job_id(job);
  m.mutable_token()->set_step(step);
  m.mutable_token()->set_token(token);
  m.mutable_token()->set_is_end(end);
  Write(m, epoch_offset);
}

void FakeRank::Progress(const std::string& job, double fraction) {
  v1::RankMessage m;
  m.mutable_progress()->set_job_id(job);
  m.mutable_progress()->set_fraction(fraction);
  Write(m);
}

void FakeRank::Logits(const std::string& job, uint32_t step, uint32_t offset, const std::string& values) {
  v1::RankMessage m;
  m.mutable_logits()->set_job_id(job);
  m.mutable_logits()->set_step(step);
  m.mutable_logits()->set_offset(offset);
  m.mutable_logits()->set_values(values);
  Write(m);
}

void FakeRank::Opened(const std::string& job) {
  v1::RankMessage m;
  m.mutable_attention_opened()->set_job_id(job);
  Write(m);
}

void FakeRank::Ran(const std::string& job, int error_code, const std::string& error) {
  v1::RankMessage m;
  v1::AttendFinished* figures = m.mutable_attention_ran()->mutable_figures();
  figures->set_job_id(job);
  figures->set_run_us(1234);
  figures->set_workers(2);
  figures->set_strategy("pass-kv");
  m.mutable_attention_ran()->set_error_code(error_code);
  m.mutable_attention_ran()->set_error(error);
  Write(m);
}

void FakeRank::Ended(const std::string& job, const std::string& reason) {
  v1::RankMessage m;
  m.mutable_ended()->set_job_id(job);
  m.mutable_ended()->set_finish_reason(reason);
  m.mutable_ended()->set_digest("digest");
  Write(m);
}

}  // namespace rondo::coordinator
