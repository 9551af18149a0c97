#include "cli/request_options.h"

#include <functional>
#include <type_traits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/duration.h"
#include "cli/input.h"
#include "cli/number_option.h"

namespace rondo::cli {
namespace {

// Larger texts are uploaded: a request stays far below every message limit. 256 KiB chunks were the fastest measured.
constexpr size_t kInlineBytes = 64 << 10;
constexpr size_t kChunkBytes = 256 << 10;

// A file that cannot be read is a wrong argument, whatever the reason.
absl::Status ReadInto(const char* option, const std::string& path, v1::Content* content) {
  absl::StatusOr<std::string> text = ReadInput(path);
  if (!text.ok()) return absl::InvalidArgumentError(absl::StrCat(option, ": ", text.status().message()));
  content->set_inline_(*std::move(text));
  return absl::OkStatus();
}

absl::Status FillPrompt(const RequestOptions& o, v1::Prompt* prompt) {
  const bool chat = o.document || o.question;
  const int kinds = chat + o.prompt.has_value() + o.prompt_file.has_value() + o.prompt_ids.has_value();
  if (kinds == 0) {
    return absl::InvalidArgumentError(
        "nothing to answer: give --document and --question, --question alone, --prompt, "
        "--prompt-file or --prompt-ids");
  }
  if (kinds > 1) {
    return absl::InvalidArgumentError(
        "give one of --document/--question, --prompt, --prompt-file and --prompt-ids, not several");
  }
  if (o.system && !chat) {
    return absl::InvalidArgumentError("--system belongs to a chat (--question); a raw prompt has no system turn");
  }
  if (o.document && !o.question) return absl::InvalidArgumentError("--document needs a --question about it");
  if (o.prompt) prompt->mutable_text()->set_inline_(*o.prompt);
  if (o.prompt_file) return ReadInto("--prompt-file", *o.prompt_file, prompt->mutable_text());
  if (o.prompt_ids) return ReadInto("--prompt-ids", *o.prompt_ids, prompt->mutable_ids());
  if (chat) {
    prompt->mutable_chat()->mutable_question()->set_inline_(*o.question);
    if (o.system) prompt->mutable_chat()->mutable_system()->set_inline_(*o.system);
    if (o.document) return ReadInto("--document", *o.document, prompt->mutable_chat()->mutable_document());
  }
  return absl::OkStatus();
}

grpc::Status UploadContent(v1::Inference::Stub& stub, absl::Time deadline, v1::Content* content) {
  if (content->inline_().size() <= kInlineBytes) return grpc::Status::OK;
  grpc::ClientContext context;
  if (deadline != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(deadline));
  v1::UploadReply reply;
  const auto writer = stub.Upload(&context, &reply);
  const std::string& text = content->inline_();
  v1::UploadChunk chunk;
  for (size_t at = 0; at < text.size(); at += kChunkBytes) {
    chunk.set_data(text.substr(at, kChunkBytes));
    if (!writer->Write(chunk)) break;  // Finish says why
  }
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (status.ok()) content->set_upload_id(reply.upload_id());
  return status;
}

}  // namespace

void AddRequestOptions(CLI::App& command, RequestOptions* o) {
  constexpr char kChat[] = "Prompt: a chat turn";
  constexpr char kRaw[] = "Prompt: raw, without chat format";
  constexpr char kSampling[] = "Sampling";
  constexpr char kLimits[] = "Limits";
  command.add_option("--document", o->document, "Text file to ask about; - is standard input")
      ->type_name("FILE")
      ->group(kChat);
  command.add_option("--question", o->question, "The question, about the document or alone")
      ->type_name("TEXT")
      ->group(kChat);
  command.add_option("--system", o->system, "System turn in place of the model's default")
      ->type_name("TEXT")
      ->group(kChat);
  command.add_option("--prompt", o->prompt, "Text to continue")->type_name("TEXT")->group(kRaw);
  command.add_option("--prompt-file", o->prompt_file, "File with the text to continue; - is standard input")
      ->type_name("FILE")
      ->group(kRaw);
  command.add_option("--prompt-ids", o->prompt_ids, "File of token ids with white space between; - is standard input")
      ->type_name("FILE")
      ->group(kRaw);
  // What the sampler admits (model/sampler), said before anything is sent.
  command.add_option("--temperature", o->temperature, "0 takes the most likely token every time")
      ->type_name("T")
      ->check(Admits<float>([](float t) { return t >= 0 && t <= 100; }, "a number from 0 to 100"))
      ->group(kSampling)
      ->capture_default_str();
  command.add_option("--top-k", o->top_k, "Draw from the K most likely tokens; 0 is off")
      ->type_name("K")
      ->check(Admits<int32_t>([](int32_t k) { return k >= 0; }, "a whole number from 0 to 2147483647"))
      ->group(kSampling)
      ->capture_default_str();
  command.add_option("--top-p", o->top_p, "Draw from the most likely tokens that together reach P; 1 is off")
      ->type_name("P")
      ->check(Admits<float>([](float p) { return p > 0 && p <= 1; }, "a number above 0 and up to 1"))
      ->group(kSampling)
      ->capture_default_str();
  command.add_option("--min-p", o->min_p, "Leave out tokens below P times the most likely one; 0 is off")
      ->type_name("P")
      ->check(Admits<float>([](float p) { return p >= 0 && p <= 1; }, "a number from 0 to 1"))
      ->group(kSampling)
      ->capture_default_str();
  command.add_option("--seed", o->seed, "The same seed draws the same tokens")
      ->type_name("S")
      ->check(Admits<uint64_t>([](uint64_t) { return true; }, "a whole number from 0 to 18446744073709551615"))
      ->group(kSampling)
      ->capture_default_str();
  command.add_option("--stop", o->stop, "End the answer before this text; may be repeated")
      ->type_name("TEXT")
      ->group(kSampling)
      ->expected(1)
      ->take_all();
  command.add_option("--max-tokens", o->max_tokens, "Longest answer")
      ->type_name("N")
      ->group(kLimits)
      ->check(CLI::Range(1u, 1u << 30))
      ->capture_default_str();
  command.add_option("--deadline", o->deadline, "Give up after this time, queueing included: 90s, 10m, 1h30m")
      ->type_name("TIME")
      ->group(kLimits);
  command.add_flag("--beyond-context", o->beyond_context, "Allow more tokens than the model was trained for")
      ->group(kLimits);
}

absl::StatusOr<PreparedRequest> PrepareRequest(const RequestOptions& o) {
  PreparedRequest prepared;
  if (o.deadline) {
    const absl::StatusOr<absl::Duration> deadline = ParseDuration(*o.deadline);
    if (!deadline.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--deadline: ", deadline.status().message()));
    }
    prepared.deadline = absl::Now() + *deadline;
  }
  v1::GenerateRequest& request = prepared.request;
  if (const absl::Status status = FillPrompt(o, request.mutable_prompt()); !status.ok()) return status;
  v1::Sampling& sampling = *request.mutable_sampling();
  sampling.set_temperature(o.temperature);
  sampling.set_top_k(o.top_k);
  sampling.set_top_p(o.top_p);
  sampling.set_min_p(o.min_p);
  sampling.set_seed(o.seed);
  request.set_max_tokens(o.max_tokens);
  for (const std::string& stop : o.stop) request.add_stop(stop);
  request.set_ring_size(o.ring_size);
  request.set_beyond_context(o.beyond_context);
  return prepared;
}

grpc::Status UploadLargeTexts(v1::Inference::Stub& stub, absl::Time deadline, v1::GenerateRequest* request) {
  v1::Prompt& prompt = *request->mutable_prompt();
  switch (prompt.kind_case()) {
    case v1::Prompt::kText:
      return UploadContent(stub, deadline, prompt.mutable_text());
    case v1::Prompt::kIds:
      return UploadContent(stub, deadline, prompt.mutable_ids());
    case v1::Prompt::kChat:
      if (prompt.chat().has_document()) {
        const grpc::Status status = UploadContent(stub, deadline, prompt.mutable_chat()->mutable_document());
        if (!status.ok()) return status;
      }
      return UploadContent(stub, deadline, prompt.mutable_chat()->mutable_question());
    default:
      return grpc::Status::OK;
  }
}

}  // namespace rondo::cli
