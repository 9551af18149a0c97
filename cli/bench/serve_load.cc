#include "cli/bench/serve_load.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/client_channel.h"

namespace rondo::cli {
namespace {

double SecondsSince(absl::Time start) { return absl::ToDoubleSeconds(absl::Now() - start); }

// A prompt of ids that every vocabulary has, different for each request, so that nothing can be reused; and an answer
// that is forced, so that its length is known.
v1::GenerateRequest MakeRequest(const LoadOptions& o, int number) {
  std::mt19937_64 random(o.seed * 1000003 + static_cast<uint64_t>(number));
  std::string ids;
  for (int64_t i = 0; i < o.prompt_tokens; ++i) absl::StrAppend(&ids, i == 0 ? "" : " ", 3 + random() % 200);
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_ids()->set_inline_(ids);
  request.set_max_tokens(static_cast<uint32_t>(o.answer_tokens));
  request.set_beyond_context(true);
  for (int64_t i = 0; i < o.answer_tokens; ++i) request.add_forced_tokens(static_cast<int32_t>(3 + random() % 200));
  return request;
}

class Load {
 public:
  Load(const LoadOptions& options, Client& client) : o_(options), client_(client) {}

  LoadResult Run() {
    start_ = absl::Now();
    std::vector<std::thread> threads;
    for (int c = 0; c < o_.clients; ++c) threads.emplace_back([this] { ClientLoop(); });
    for (std::thread& thread : threads) thread.join();
    return std::move(result_);
  }

 private:
  void ClientLoop() {
    for (int number = next_++; number < o_.requests; number = next_++) Answer(number);
  }

  void Answer(int number) {
    const v1::GenerateRequest request = MakeRequest(o_, number);
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(o_.deadline_s)));
    RequestTimes times;
    times.begin_s = SecondsSince(start_);
    const auto reader = client_.stub().Generate(&context, request);
    v1::GenerateEvent event;
    bool finished = false;
    while (reader->Read(&event)) {
      if (event.has_delta() && event.delta().tokens_size() > 0) {
        if (times.tokens == 0) times.ttft_s = SecondsSince(start_) - times.begin_s;
        times.tokens += event.delta().tokens_size();
      }
      finished = finished || event.has_finished();
    }
    times.end_s = SecondsSince(start_);
    const grpc::Status status = reader->Finish();
    std::lock_guard lock(mutex_);
    if (status.ok() && finished && times.tokens == o_.answer_tokens) {
      result_.requests.push_back(times);
    } else if (!status.ok()) {
      result_.failures.push_back(absl::StrCat("request ", number, ": ", status.error_message()));
    } else {
      result_.failures.push_back(
          absl::StrCat("request ", number, ": ", times.tokens, " of ", o_.answer_tokens, " tokens came"));
    }
  }

  const LoadOptions& o_;
  Client& client_;
  absl::Time start_;
  std::atomic<int> next_{0};
  std::mutex mutex_;
  LoadResult result_;
};

}  // namespace

absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options) {
  const std::unique_ptr<Client> client = Client::Connect(options.coordinator);
  if (client == nullptr) return absl::UnavailableError("");  // Connect has said why
  return Load(options, *client).Run();
}

}  // namespace rondo::cli
