#include "cli/attend_run.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "cli/duration.h"
#include "cli/show.h"

namespace rondo::cli {
namespace {

constexpr int kMaxRestarts = 20;  // a job that keeps killing its group must end some day, as the coordinator's rule is
constexpr absl::Duration kCoordinatorPatience = absl::Seconds(30);  // for one that died and is started again

void SetDeadline(grpc::ClientContext& context, absl::Time deadline) {
  if (deadline != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(deadline));
}

// A worker that goes ends its calls as cancelled or unavailable, as it happens; either way the group is lost.
grpc::Status Lost(const grpc::Status& transfer) {
  if (transfer.error_code() != grpc::StatusCode::CANCELLED) return transfer;
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "a worker ended the transfer");
}

}  // namespace

AttendRun::AttendRun(Client& client, const AttendTensors& tensors, absl::Time deadline, int streams,
                     Interrupt& interrupt, ProgressLine& progress, std::string name)
    : client_(client),
      tensors_(tensors),
      deadline_(deadline),
      streams_(streams),
      interrupt_(interrupt),
      progress_(progress),
      name_(name.empty() ? name : name + ": "),
      stub_(v1::AttentionService::NewStub(client.channel())) {}

AttendOutcome AttendRun::Run(NpyRows& o, NpyRows* lse) {
  AttendOutcome outcome;
  for (;;) {
    bool opened = false;
    const absl::Time began = absl::Now();
    outcome.status = Attempt(o, lse, &outcome, &opened);
    outcome.total = absl::Now() - began;
    outcome.interrupted = interrupt_.interrupted();
    // Once begun anew, also before it is open: the group that is going may take the job once more.
    const bool lost = (opened || outcome.restarts > 0) &&
                      outcome.status.error_code() == grpc::StatusCode::UNAVAILABLE &&
                      !absl::StrContains(outcome.status.error_message(), "shutting down");
    if (!lost || outcome.interrupted || absl::Now() >= deadline_ || outcome.restarts == kMaxRestarts) break;
    ++outcome.restarts;
    progress_.Note(absl::StrCat(name_, "beginning anew: ", outcome.status.error_message()));
    client_.channel()->WaitForConnected(absl::ToChronoTime(std::min(deadline_, absl::Now() + kCoordinatorPatience)));
  }
  progress_.Clear();
  return outcome;
}

grpc::Status AttendRun::Attempt(NpyRows& o, NpyRows* lse, AttendOutcome* outcome, bool* opened) {
  v1::AttentionTicket ticket;
  if (grpc::Status status = Open(&ticket); !status.ok()) return status;
  *opened = true;
  progress_.Note(absl::StrCat(name_, "job ", ticket.job_id(), ": ", ShowCount(tensors_.spec.q_tokens), " queries on ",
                              ShowCount(tensors_.spec.kv_tokens), " keys, ", ticket.ranks_size(),
                              ticket.ranks_size() == 1 ? " worker" : " workers"));
  const absl::Cleanup close = [&] { Close(ticket.job_id()); };
  return Transfers(ticket, o, lse, outcome);
}

grpc::Status AttendRun::Open(v1::AttentionTicket* ticket) {
  grpc::ClientContext context;
  SetDeadline(context, deadline_);
  progress_.Show("open", absl::StrCat(name_, "waiting for memory on the workers"), absl::Now());
  interrupt_.OnInterrupt([&context] { context.TryCancel(); });
  const grpc::Status status = stub_->Open(&context, tensors_.message, ticket);
  interrupt_.OnInterrupt(nullptr);
  return status;
}

grpc::Status AttendRun::Transfers(const v1::AttentionTicket& ticket, NpyRows& o, NpyRows* lse, AttendOutcome* outcome) {
  AttendTransfer transfer(ticket, deadline_, streams_);
  interrupt_.OnInterrupt([&transfer] { transfer.Cancel(); });
  const absl::Cleanup quiet = [&] { interrupt_.OnInterrupt(nullptr); };
  absl::Time began = absl::Now();
  grpc::Status status = Lost(transfer.Upload(tensors_, Show("uploading", began)));
  if (!status.ok()) return status;
  outcome->upload = absl::Now() - began;
  outcome->upload_bytes = transfer.bytes();

  began = absl::Now();
  if (status = Attend(ticket.job_id(), &outcome->result); !status.ok()) return status;
  outcome->run = absl::Now() - began;

  interrupt_.OnInterrupt([&transfer] { transfer.Cancel(); });
  began = absl::Now();
  status = Lost(transfer.Download(v1::O, o.rows(), Show("fetching", began)));
  outcome->download_bytes = transfer.bytes();
  if (status.ok() && lse != nullptr) {
    status = Lost(transfer.Download(v1::LSE, lse->rows(), Show("fetching", began)));
    outcome->download_bytes += transfer.bytes();
  }
  outcome->download = absl::Now() - began;
  return status;
}

grpc::Status AttendRun::Attend(const std::string& job, v1::AttendFinished* result) {
  grpc::ClientContext context;
  SetDeadline(context, deadline_);
  v1::AttendRequest request;
  request.set_job_id(job);
  interrupt_.OnInterrupt([&context] { context.TryCancel(); });
  const auto reader = stub_->Attend(&context, request);
  progress_.Show("attend", absl::StrCat(name_, "attending"), absl::Now());
  bool finished = false;
  v1::AttendEvent event;
  while (reader->Read(&event)) {
    if (event.has_finished()) {
      *result = event.finished();
      finished = true;
    } else if (event.has_progress()) {
      const double fraction = event.progress().fraction();
      const absl::Duration spent = absl::Microseconds(event.progress().elapsed_us());
      std::string line = absl::StrFormat("%sattending %d %%", name_, static_cast<int>(fraction * 100));
      if (fraction > 0) {
        absl::StrAppend(&line, ", ", ShowRate(fraction * tensors_.spec.q_tokens / absl::ToDoubleSeconds(spent)),
                        " queries/s, ", ShowDuration(spent * ((1 - fraction) / fraction)), " left");
      }
      progress_.Show("attend", line, absl::Now());
    }
  }
  const grpc::Status status = reader->Finish();
  interrupt_.OnInterrupt(nullptr);
  if (status.ok() && !finished) {
    return grpc::Status(grpc::StatusCode::INTERNAL, "the coordinator ended the job without saying how it ended");
  }
  return status;
}

void AttendRun::Close(const std::string& job) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  v1::CloseAttentionRequest request;
  request.set_job_id(job);
  v1::CloseAttentionReply reply;
  stub_->Close(&context, request, &reply);  // unheard, the coordinator closes it in its own time
}

AttendTransfer::Progress AttendRun::Show(const char* what, absl::Time began) {
  return [this, what, began](uint64_t done, uint64_t total) {
    const absl::Time now = absl::Now();
    const double rate = static_cast<double>(done) / absl::ToDoubleSeconds(now - began);
    std::string line = absl::StrFormat("%s%s %d %%, %s of %s, %s/s", name_, what,
                                       static_cast<int>(total == 0 ? 0 : done * 100 / total), ShowBytes(done),
                                       ShowBytes(total), ShowBytes(static_cast<uint64_t>(rate)));
    if (done > 0) absl::StrAppend(&line, ", ", ShowDuration(absl::Seconds((total - done) / rate)), " left");
    progress_.Show(what, line, now);
  };
}

}  // namespace rondo::cli
