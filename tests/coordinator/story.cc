#include "tests/coordinator/story.h"

#include <cstdlib>
#include <map>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/text.h"

namespace rondo::coordinator {
namespace {

constexpr TimeUs kZero = 1000000000;  // time 0 of every story

TimeUs At(double seconds) { return kZero + static_cast<TimeUs>(seconds * 1e6); }

// "word word key=value": words by place, values by key; "(...)" is one word.
struct Line {
  std::vector<std::string> words;
  std::map<std::string, std::string> values;

  explicit Line(std::string_view text) {
    std::istringstream in{std::string(text)};
    std::string word;
    while (in >> word) {
      if (word.front() == '(') {
        while (word.back() != ')') {
          std::string more;
          RONDO_CHECK(static_cast<bool>(in >> more));
          word += " " + more;
        }
        words.push_back(word.substr(1, word.size() - 2));
      } else if (const size_t eq = word.find('='); eq != std::string::npos) {
        values[word.substr(0, eq)] = word.substr(eq + 1);
      } else {
        words.push_back(word);
      }
    }
  }
  const std::string& Word(size_t i) const {
    RONDO_CHECK(i < words.size());
    return words[i];
  }
  double Number(const std::string& key, double otherwise) const {
    const auto it = values.find(key);
    return it == values.end() ? otherwise : std::atof(it->second.c_str());
  }
  std::string Text(const std::string& key, const std::string& otherwise) const {
    const auto it = values.find(key);
    return it == values.end() ? otherwise : it->second;
  }
  bool Has(const std::string& word) const {
    for (const std::string& w : words) {
      if (w == word) return true;
    }
    return false;
  }
  uint64_t Count(size_t i) const { return std::strtoull(Word(i).c_str(), nullptr, 10); }
};

std::vector<int64_t> List(const std::string& text) {
  std::vector<int64_t> numbers;
  std::istringstream in(text);
  std::string part;
  while (std::getline(in, part, ',')) numbers.push_back(std::atoll(part.c_str()));
  return numbers;
}

JobSpec ReadSpec(const Line& line, uint64_t arrival, double now_s) {
  JobSpec spec;
  spec.id = line.Word(1);
  spec.prompt_tokens = static_cast<int64_t>(line.Number("prompt", 10));
  spec.prompt = std::make_shared<const std::vector<int32_t>>(spec.prompt_tokens, 7);
  spec.max_tokens = static_cast<uint32_t>(line.Number("max", 4));
  spec.arrival = static_cast<uint64_t>(line.Number("arrival", static_cast<double>(arrival)));
  spec.ring_size = static_cast<uint32_t>(line.Number("ring", 0));
  spec.want_logits = line.Has("logits");
  spec.reference = line.Has("reference");
  spec.bits_key = line.Text("key", "model");
  spec.submitted = At(now_s);
  if (line.values.contains("deadline")) spec.deadline = At(line.Number("deadline", 0));
  return spec;
}

// "open a tokens=600": an attention job of 1 head of 1 element, 8 bytes a token for K and V and 8 for Q and O.
JobSpec ReadAttention(const Line& line, uint64_t arrival, double now_s) {
  JobSpec spec = ReadSpec(line, arrival, now_s);
  auto work = std::make_shared<AttentionWork>();
  work->spec.q_tokens = work->spec.kv_tokens = static_cast<int64_t>(line.Number("tokens", 10));
  work->spec.shape.q_heads = work->spec.shape.kv_heads = work->spec.shape.head_dim = 1;
  work->spec.shape.scale = 1;
  spec.prompt = nullptr;
  spec.prompt_tokens = work->spec.kv_tokens;
  spec.bits_key = "";
  spec.attention = work;
  return spec;
}

EventBody ReadEvent(const Line& line, uint64_t arrival, double now_s) {
  const std::string& what = line.Word(0);
  if (what == "submit") return SubmitEvent{ReadSpec(line, arrival, now_s)};
  if (what == "open") return SubmitEvent{ReadAttention(line, arrival, now_s)};
  if (what == "opened") return OpenedEvent{line.Count(1), line.Word(2)};
  if (what == "attend") return AttendEvent{line.Word(1)};
  if (what == "close") return CloseEvent{line.Word(1)};
  if (what == "ran") {
    RanEvent e{line.Count(1), line.Word(2), absl::OkStatus(), {}};
    if (line.words.size() > 3) e.error = absl::FailedPreconditionError(line.Word(3));
    e.result.run_us = static_cast<uint64_t>(line.Number("run", 0) * 1e6);
    e.result.workers = 2;
    return e;
  }
  if (what == "restore") {
    RestoreEvent e{ReadSpec(line, arrival, now_s), {}, static_cast<uint32_t>(line.Number("runs", 0))};
    for (const int64_t token : List(line.Text("tokens", ""))) e.tokens.push_back(static_cast<int32_t>(token));
    return e;
  }
  if (what == "beat") {
    BeatEvent e{line.Count(1), static_cast<uint32_t>(line.Count(2)), line.Count(3), line.Count(4), {}};
    if (line.values.contains("fed")) e.fed_jobs.push_back(line.Text("fed", ""));
    return e;
  }
  if (what == "cancel") return CancelEvent{line.Word(1), line.Word(2)};
  if (what == "abandon") return AbandonEvent{line.Word(1), absl::UnavailableError(line.Word(2))};
  if (what == "ready") {
    GroupInfo group;
    group.epoch = line.Count(1);
    group.bits_key = line.Text("key", "model");
    for (const int64_t bytes : List(line.Text("memory", "1000000,1000000"))) group.kv_memory.push_back(bytes);
    for (size_t r = 0; r < group.kv_memory.size(); ++r) group.data_addresses.push_back(absl::StrCat("r", r));
    group.kv_bytes_per_token = static_cast<uint64_t>(line.Number("per_token", 1));
    group.prefill_chunk = static_cast<int64_t>(line.Number("chunk", 0));
    group.kernels = "avx2";
    group.compute = "q8";
    group.kv_type = "f32";
    return GroupReadyEvent{group};
  }
  if (what == "lost") return GroupLostEvent{line.Count(1), line.Word(2)};
  if (what == "progress") return ProgressEvent{line.Count(1), line.Word(2), std::atof(line.Word(3).c_str())};
  if (what == "token") {
    return TokenEvent{line.Count(1), line.Word(2), static_cast<uint32_t>(line.Count(3)),
                      static_cast<int32_t>(line.Count(4)), line.Has("end")};
  }
  if (what == "logits") {
    return LogitsEvent{line.Count(1), line.Word(2), static_cast<uint32_t>(line.Count(3)),
                       static_cast<uint32_t>(line.Count(4)), std::string(4 * line.Count(5), 'x')};
  }
  if (what == "ended") {
    EndedEvent e;
    e.epoch = line.Count(1);
    e.job_id = line.Word(2);
    e.finish_reason = line.Word(3);
    if (line.words.size() > 4) e.error = line.Word(4);
    e.error_code = static_cast<int32_t>(line.Number("code", 0));
    e.prefill_us = static_cast<uint64_t>(line.Number("prefill", 0) * 1e6);
    e.decode_us = static_cast<uint64_t>(line.Number("decode", 0) * 1e6);
    e.steps = static_cast<uint32_t>(line.Number("steps", 0));
    e.digest = "d";
    return e;
  }
  if (what == "drain") return DrainEvent{static_cast<int64_t>(line.Number("grace", 0) * 1e6)};
  RONDO_CHECK(what == "tick");
  return TickEvent{};
}

struct Printer {
  std::string operator()(const SubmittedRecord& r) const { return absl::StrCat("journal submitted ", r.spec.id); }
  std::string operator()(const StartedRecord& r) const {
    return absl::StrCat("journal started ", r.job_id, " epoch=", r.epoch);
  }
  std::string operator()(const TokensRecord& r) const {
    return absl::StrCat("journal tokens ", r.job_id, " ", r.first_step, ": ", r.tokens.front());
  }
  std::string operator()(const ClosedRecord& r) const {
    return absl::StrCat("journal closed ", r.job_id, " ", Name(r.state));
  }
  std::string operator()(const PromptSliceCommand& c) const {
    return absl::StrCat("prompt ", c.job_id, " [", c.begin, ",", c.end, ")");
  }
  std::string operator()(const StartCommand& c) const {
    return absl::StrCat("start ", c.spec.id, " ring=", c.ring_size);
  }
  std::string operator()(const OpenAttentionCommand& c) const {
    return absl::StrCat("open ", c.job_id, " ring=", c.ring_size);
  }
  std::string operator()(const RunAttentionCommand& c) const { return absl::StrCat("run ", c.job_id); }
  std::string operator()(const CancelCommand& c) const {
    return absl::StrCat("cancel ", c.job_id, " (", c.reason, ")");
  }
  std::string operator()(const LeaveCommand& c) const {
    return absl::StrCat("leave (", c.reason, ")", c.drain ? " drain" : "");
  }
  std::string operator()(const AcceptedNote& n) const {
    return absl::StrCat("accepted prompt=", n.prompt_tokens, " ahead=", n.queue_position);
  }
  std::string operator()(const ProgressNote& n) const {
    const std::string message = n.message.empty() ? "" : absl::StrCat(" (", n.message, ")");
    if (n.phase == Phase::kQueued) return absl::StrCat("queued ahead=", n.queue_position, message);
    if (n.phase == Phase::kRestarting) return absl::StrCat("restarting ahead=", n.queue_position, message);
    return absl::StrFormat("prefill %.2f, %.0f tokens/s, %.1f s left", n.fraction, n.tokens_per_s, n.eta_us / 1e6);
  }
  std::string operator()(const TokenNote& n) const { return absl::StrCat("token ", n.token); }
  std::string operator()(const LogitsNote& n) const {
    return absl::StrCat("logits step=", n.step, " offset=", n.offset, " count=", n.values.size() / 4);
  }
  std::string operator()(const OpenedNote& n) const {
    return absl::StrCat("opened epoch=", n.epoch, " at ", absl::StrJoin(n.data_addresses, ","));
  }
  std::string operator()(const RanNote& n) const {
    if (!n.error.ok()) return absl::StrCat("did not run: ", n.error.ToString());
    return absl::StrFormat("ran in %.1f s on %d workers, %s", n.result.run_us / 1e6, n.result.workers,
                           n.result.kernels);
  }
  std::string operator()(const ClosedNote& n) const {
    if (n.state == JobState::kFailed) return absl::StrCat("failed ", n.error.ToString());
    const JobResult& r = n.result;
    return absl::StrFormat("%s %s, %d+%d tokens, ttft %.1f s, prefill %.0f/s, decode %.1f/s, %d workers, %d restarts",
                           Name(n.state), r.finish_reason, r.prompt_tokens, r.completion_tokens, r.ttft_us / 1e6,
                           r.prefill_tokens_per_s, r.decode_tokens_per_s, r.workers, r.restarts);
  }
};

std::string Print(const Actions& actions) {
  std::string out;
  for (const Record& record : actions.append) absl::StrAppend(&out, std::visit(Printer{}, record), "\n");
  if (actions.must_sync) absl::StrAppend(&out, "sync\n");
  for (const GroupCommand& c : actions.send) {
    const std::string number = c.number == 0 ? "" : absl::StrCat("#", c.number, " ");
    absl::StrAppend(&out, "send ", c.epoch, " ", number, std::visit(Printer{}, c.body), "\n");
  }
  for (const JobNote& note : actions.stream) {
    absl::StrAppend(&out, note.job_id, ": ", std::visit(Printer{}, note.body), "\n");
  }
  if (actions.drained) absl::StrAppend(&out, "drained\n");
  return out;
}

}  // namespace

std::string StoryTeller::Tell(std::string_view text) {
  const Line line(text);
  if (line.Word(0) == "options") {
    options_.queue_limit = static_cast<uint32_t>(line.Number("queue_limit", options_.queue_limit));
    options_.max_running = static_cast<uint32_t>(line.Number("max_running", options_.max_running));
    options_.group_wait_us = static_cast<int64_t>(line.Number("group_wait", 300) * 1e6);
    options_.max_restarts = static_cast<uint32_t>(line.Number("max_restarts", options_.max_restarts));
    options_.prompt_slice_ids = static_cast<int64_t>(line.Number("slice", 65536));
    options_.upload_wait_us = static_cast<int64_t>(line.Number("upload_wait", 600) * 1e6);
    options_.attention_keep_us = static_cast<int64_t>(line.Number("keep", 600) * 1e6);
    options_.stall_timeout_us = static_cast<int64_t>(line.Number("stall", 0) * 1e6);
    options_.retained_jobs = static_cast<uint32_t>(line.Number("retained", options_.retained_jobs));
    return "";
  }
  if (scheduler_ == nullptr) scheduler_ = std::make_unique<Scheduler>(options_);
  if (line.Word(0) == "state") {
    const Job* job = scheduler_->FindJob(line.Word(1));
    return job == nullptr ? "unknown\n"
                          : absl::StrCat(Name(job->state), " ahead=", scheduler_->QueuePosition(line.Word(1)), "\n");
  }
  now_s_ = line.Number("at", now_s_);
  return Print(scheduler_->Step({At(now_s_), ReadEvent(line, ++arrivals_, now_s_)}));
}

}  // namespace rondo::coordinator
