// rondo attend: exact attention over tensors in files, computed by the ring, without a model.
#include <cmath>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/attend_check.h"
#include "cli/attend_run.h"
#include "cli/client_channel.h"
#include "cli/commands.h"
#include "cli/duration.h"
#include "cli/json_out.h"
#include "cli/npy_rows.h"
#include "cli/number_option.h"
#include "cli/option_names.h"
#include "cli/part_file.h"
#include "cli/show.h"

namespace rondo::cli {
namespace {

struct Options {
  std::string coordinator;
  AttendOptions attend;
  std::string out, lse, deadline;
  int streams = 2;
  bool check_finite = false, verify = false, json = false, quiet = false;
};

// Beyond this part of the largest |V|, an error is no rounding: float32 arithmetic, or bfloat16 products.
double Tolerance(KvType type) { return type == KvType::kF32 ? 1e-3 : 5e-2; }

double PerSecond(double count, absl::Duration time) {
  const double seconds = absl::ToDoubleSeconds(time);
  return seconds > 0 ? count / seconds : 0;
}

Json ResultJson(const AttendTensors& t, const AttendOutcome& outcome, const std::string& digest) {
  const v1::AttendFinished& r = outcome.result;
  return Json{{"digest", digest},
              {"workers", r.workers()},
              {"strategy", r.strategy()},
              {"strategy_reason", r.strategy_reason()},
              {"seconds", r.run_us() * 1e-6},
              {"total_seconds", absl::ToDoubleSeconds(outcome.total)},
              {"upload_bytes", outcome.upload_bytes},
              {"upload_bytes_per_s", PerSecond(outcome.upload_bytes, outcome.upload)},
              {"download_bytes", outcome.download_bytes},
              {"download_bytes_per_s", PerSecond(outcome.download_bytes, outcome.download)},
              {"tokens", t.spec.q_tokens},
              {"kv_tokens", t.spec.kv_tokens},
              {"q_heads", t.spec.shape.q_heads},
              {"kv_heads", t.spec.shape.kv_heads},
              {"head_dim", t.spec.shape.head_dim},
              {"dtype", std::string(Name(t.spec.shape.kv_type))},
              {"kernels", r.kernels()},
              {"exchanged_bytes", r.exchanged_bytes()},
              {"skipped_steps", r.skipped_steps()},
              {"memory_bytes_per_worker",
               Json(std::vector<uint64_t>(r.memory_bytes_per_worker().begin(), r.memory_bytes_per_worker().end()))},
              {"restarts", outcome.restarts},
              {"id", r.job_id()}};
}

std::string Summary(const AttendTensors& t, const AttendOutcome& outcome, const std::string& digest) {
  const v1::AttendFinished& r = outcome.result;
  const absl::Duration run = absl::Microseconds(r.run_us());
  std::string out = absl::StrCat(
      "attended ", ShowCount(t.spec.q_tokens), " queries on ", ShowCount(t.spec.kv_tokens), " keys in ",
      ShowDuration(run), ", ", ShowRate(PerSecond(t.spec.q_tokens, run)), " queries/s\n", "moved    ",
      ShowBytes(outcome.upload_bytes), " up at ",
      ShowBytes(static_cast<uint64_t>(PerSecond(outcome.upload_bytes, outcome.upload))), "/s, ",
      ShowBytes(outcome.download_bytes), " down at ",
      ShowBytes(static_cast<uint64_t>(PerSecond(outcome.download_bytes, outcome.download))), "/s, ",
      ShowDuration(outcome.total), " in all\n", "ring     ", r.workers(), r.workers() == 1 ? " worker, " : " workers, ",
      r.strategy(), ", ", r.kernels(), ", KV ", std::string(Name(t.spec.shape.kv_type)), ", exchanged ",
      ShowBytes(r.exchanged_bytes()), "\n", "memory   ",
      absl::StrJoin(r.memory_bytes_per_worker(), ", ",
                    [](std::string* to, uint64_t bytes) { absl::StrAppend(to, ShowBytes(bytes)); }),
      " per worker\n");
  if (outcome.restarts > 0) absl::StrAppend(&out, "restarts ", outcome.restarts, "\n");
  absl::StrAppend(&out, "digest   ", digest);
  return out;
}

ExitCode ReportOutcome(const Client& client, const AttendOutcome& outcome) {
  if (outcome.interrupted) return Fail(kInterrupted, "interrupted; the job is closed", "");
  if (outcome.status.ok()) return kOk;
  if (outcome.status.error_code() == grpc::StatusCode::CANCELLED) {
    return Fail(kFailure, absl::StrCat("the job was ended: ", outcome.status.error_message()), "");
  }
  return client.Report(WithOptionNames(outcome.status, AttendFields()));
}

class AttendCommand {
 public:
  explicit AttendCommand(const Options& options) : o_(options), progress_(ProgressLine::ForStderr(options.quiet)) {}

  int Run() {
    if (absl::Status status = CheckResults(); !status.ok()) return FailStatus(status, "see: rondo attend --help");
    absl::StatusOr<AttendTensors> tensors = LoadAttendTensors(o_.attend);
    if (!tensors.ok()) return FailStatus(tensors.status(), "see: rondo attend --help");
    if (!o_.deadline.empty()) {
      absl::StatusOr<absl::Duration> deadline = ParseDuration(o_.deadline);
      if (!deadline.ok()) {
        return Fail(kUsage, absl::StrCat("--deadline: ", deadline.status().message()), "see: rondo attend --help");
      }
      deadline_ = absl::Now() + *deadline;
    }
    if (o_.check_finite) {
      if (absl::Status status = CheckFinite(*tensors); !status.ok())
        return FailStatus(status, "leave out --check-finite to attend all the same");
    }
    Interrupt interrupt;
    const std::unique_ptr<Client> client = Client::Connect(o_.coordinator);
    if (client == nullptr) return kNoCoordinator;
    return Attend(*tensors, *client, interrupt);
  }

 private:
  // Before anything is read or sent: what comes after may take hours.
  absl::Status CheckResults() const {
    const auto of = [](const char* option, const absl::Status& status) {
      return absl::Status(status.code(), absl::StrCat(option, ": ", status.message()));
    };
    if (absl::Status status = CheckResultPath(o_.out); !status.ok()) return of("--out", status);
    if (!o_.attend.lse) return absl::OkStatus();
    if (absl::Status status = CheckResultPath(o_.lse); !status.ok()) return of("--lse", status);
    if (!SameResultPath(o_.out, o_.lse)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("--lse: ", o_.lse, " is the file of --out: name another"));
  }

  int Attend(const AttendTensors& t, Client& client, Interrupt& interrupt) {
    const std::vector<int64_t> shape = t.q->shape();
    absl::StatusOr<std::unique_ptr<NpyRows>> out = NpyRows::Create(o_.out, shape);
    if (!out.ok()) return FailStatus(out.status(), "name a file in a folder that can be written with --out");
    std::unique_ptr<NpyRows> lse;
    if (o_.attend.lse) {
      absl::StatusOr<std::unique_ptr<NpyRows>> created = NpyRows::Create(o_.lse, {shape[0], shape[1]});
      if (!created.ok()) return FailStatus(created.status(), "name a file in a folder that can be written with --lse");
      lse = *std::move(created);
    }
    const AttendOutcome outcome =
        AttendRun(client, t, deadline_, o_.streams, interrupt, progress_, o_.verify ? "ring" : "")
            .Run(**out, lse.get());
    if (const ExitCode code = ReportOutcome(client, outcome); code != kOk) return code;
    absl::StatusOr<std::string> digest = (*out)->Digest();
    if (!digest.ok()) return FailStatus(digest.status(), "");
    if (!o_.quiet) std::fprintf(stderr, "%s\n", Summary(t, outcome, *digest).c_str());
    Json json = ResultJson(t, outcome, *digest);
    ExitCode verdict = kOk;
    if (o_.verify) verdict = Verify(t, client, interrupt, **out, *digest, &json);
    if (absl::Status status = (*out)->Finish(); !status.ok()) return FailStatus(status, "");
    if (lse != nullptr) {
      if (absl::Status status = lse->Finish(); !status.ok()) return FailStatus(status, "");
    }
    if (o_.json && !PrintJson(json)) return Fail(kFailure, "standard output is closed", "");
    return verdict;
  }

  ExitCode Verify(const AttendTensors& t, Client& client, Interrupt& interrupt, const NpyRows& out,
                  const std::string& digest, Json* json) {
    absl::StatusOr<AttendError> error = CheckAgainstFloat64(t, out);
    if (!error.ok()) return FailStatus(error.status(), "");
    (*json)["float64_rows"] = error->rows;
    (*json)["largest_error"] = error->largest;
    Print(absl::StrFormat("float64     %d rows: largest error %.3g, where |V| is at most %.3g", error->rows,
                          error->largest, error->largest_value));

    AttendTensors alone = t;
    alone.message.set_ring_size(1);
    alone.spec.ring_size = 1;
    absl::StatusOr<std::unique_ptr<NpyRows>> other = NpyRows::Create(o_.out + ".one-worker", t.q->shape());
    if (!other.ok()) return FailStatus(other.status(), "");
    const AttendOutcome one =
        AttendRun(client, alone, deadline_, o_.streams, interrupt, progress_, "one worker").Run(**other, nullptr);
    if (const ExitCode code = ReportOutcome(client, one); code != kOk) return code;
    absl::StatusOr<std::string> one_digest = (*other)->Digest();
    if (!one_digest.ok()) return FailStatus(one_digest.status(), "");
    const bool equal = *one_digest == digest;
    (*json)["digest_one_worker"] = *one_digest;
    (*json)["equal"] = equal;
    Print(absl::StrCat("one worker  digest ", *one_digest, equal ? ": every bit is equal" : ": DIFFERENT"));
    if (!equal) {
      return Fail(kFailure, "the ring's bits are not those of one worker",
                  "this is a bug of Rondo's: please report it with the shapes, the options and `rondo status --json`");
    }
    if (!(error->largest <= Tolerance(t.spec.shape.kv_type) * error->largest_value) && error->largest != 0) {
      return Fail(kFailure, absl::StrCat("the answer is ", error->largest, " away from float64"),
                  "no rounding explains that, unless the tensors hold NaN or infinities (--check-finite)");
    }
    return kOk;
  }

  void Print(const std::string& line) const { std::fprintf(o_.json ? stderr : stdout, "%s\n", line.c_str()); }

  const Options& o_;
  ProgressLine progress_;
  absl::Time deadline_ = absl::InfiniteFuture();
};

void AddScoreOptions(CLI::App& command, AttendOptions* a) {
  const char* group = "What a query sees, and how it weighs";
  command
      .add_flag("--causal", a->causal,
                "A query sees keys up to its own position; query i of T has position "
                "tokens - T + i: queries are the last of the sequence")
      ->group(group);
  command.add_option("--window", a->window, "See only keys less than W positions away")
      ->type_name("W")
      ->check(Between(int64_t{0}, kMaxAttentionTokens))
      ->group(group);
  command.add_option("--scale", a->scale, "Multiplies q.k; without it, 1 / sqrt(head_dim)")
      ->type_name("S")
      ->check(Between(kMinAttentionScale, kMaxAttentionScale))
      ->group(group);
  command.add_option("--softcap", a->softcap, "Scores become C * tanh(score / C)")->type_name("C")->group(group);
  command.add_option("--sinks", a->sinks, "A logit for each q head that joins the softmax and carries no value")
      ->type_name("FILE|a,b,..")
      ->group(group);
  command.add_option("--alibi", a->alibi, "A slope for each q head: score - slope * distance")
      ->type_name("FILE|a,b,..")
      ->group(group);
  command
      .add_option("--cu-seqlens", a->cu_seqlens, "Where packed sequences start: 0, ..., tokens; each sees itself only")
      ->type_name("FILE|0,n,..")
      ->group(group);
}

}  // namespace

void AddAttendCommand(CLI::App& app, RunCommand* run) {
  auto o = std::make_shared<Options>();
  AttendOptions* a = &o->attend;
  CLI::App* command =
      app.add_subcommand("attend",
                         "Exact attention over tensors in files, without a model\n\n"
                         "Examples:\n"
                         "  rondo up --workers 4                                              # no model is needed\n"
                         "  rondo attend --q q.npy --k k.npy --v v.npy --causal --out o.npy\n"
                         "  rondo attend --q t.safetensors:q --k t.safetensors:k --v t.safetensors:v --window 512 "
                         "--out o.npy --lse l.npy\n"
                         "  rondo attend --q q.npy --k k.npy --v v.npy --causal --out o.npy --verify --json\n\n"
                         "Tensors are [tokens, heads, head_dim], float32, float16 or bfloat16, row-major: FILE.npy or "
                         "FILE.safetensors:NAME.\n"
                         "q heads must be a multiple of the heads of K and V. The result is float32; its bits do not "
                         "depend on the number of\n"
                         "workers, the strategy or what else runs. Progress and a summary go to stderr.");
  AddCoordinatorOption(*command, &o->coordinator);
  command->add_option("--q", a->q, "Queries")->type_name("FILE")->required();
  command->add_option("--k", a->k, "Keys")->type_name("FILE")->required();
  command->add_option("--v", a->v, "Values")->type_name("FILE")->required();
  command->add_option("--out", o->out, "Write the result here")->type_name("O.npy")->required();
  CLI::Option* const lse =
      command->add_option("--lse", o->lse, "Also write the log-sum-exp [tokens, q heads], natural log")
          ->type_name("L.npy");
  AddScoreOptions(*command, a);
  command
      ->add_option("--dtype", a->dtype, "How keys and values are kept; without it bf16 where the files are, else f32")
      ->type_name("f32|bf16")
      ->check(CLI::IsMember({"f32", "bf16"}));
  command->add_option("--workers", a->workers, "Use the first K workers only; 0 uses all. Same bits")
      ->type_name("K")
      ->capture_default_str();
  command->add_option("--strategy", a->strategy, "What goes round the ring; same bits")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "pass-kv", "pass-q"}))
      ->capture_default_str();
  command->add_option("--streams", o->streams, "Connections to each worker")
      ->type_name("N")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--deadline", o->deadline, "Give up after this long, e.g. 90s, 10m")->type_name("TIME");
  command->add_flag("--check-finite", o->check_finite,
                    "Look for NaN and infinities that a query sees, before anything is sent");
  command->add_flag("--verify", o->verify, "Compare sampled rows with float64, and every bit with one worker's");
  command->add_flag("--json", o->json, "Print one JSON object");
  command->add_flag("-q,--quiet", o->quiet, "No progress and no summary");
  command->callback([o, run, lse] {
    o->attend.lse = lse->count() > 0;
    *run = [o] { return AttendCommand(*o).Run(); };
  });
}

}  // namespace rondo::cli
