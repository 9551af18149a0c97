// rondo up: a coordinator and a ring of workers on this machine, kept running until Ctrl-C.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/up/scratch_folder.h"
#include "cli/up/supervisor.h"
#include "model/gguf/llama_loader.h"
#include "model/tokenizer/tokenizer.h"

namespace rondo::cli {
namespace {

// Everything that a worker asks of a model before it joins but the file's hash; reads no tensor data.
absl::Status CheckHeader(const std::string& path) {
  const absl::StatusOr<std::shared_ptr<const GgufFile>> file = GgufFile::Open(path);
  if (!file.ok()) return file.status();
  if (absl::Status model = LoadModel(*file).status(); !model.ok()) return model;
  return Tokenizer::FromGguf(**file).status();
}

int RunUp(UpOptions o) {
  if (!o.model.empty()) {
    if (access(o.model.c_str(), R_OK) != 0 || std::filesystem::is_directory(o.model)) {
      const int reason = std::filesystem::is_directory(o.model) ? EISDIR : errno;
      return Fail(kFailure, absl::StrCat("cannot read the model ", o.model, ": ", std::strerror(reason)),
                  "name a GGUF file with --model; tools/fetch_model fetches a small one");
    }
    // Once, and not by every worker of every attempt.
    if (const absl::Status model = CheckHeader(o.model); !model.ok()) {
      return Fail(kFailure, StdSv(model.message()),
                  absl::StrCat("check the whole file with: rondo-worker --check-model --model ", o.model));
    }
    // mpirun's ranks need not have our working folder.
    o.model = std::filesystem::absolute(o.model).string();
  }
  if (o.bin.empty()) o.bin = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  std::unique_ptr<ScratchFolder> scratch;
  if (o.journal.empty()) {
    absl::StatusOr<std::unique_ptr<ScratchFolder>> made =
        ScratchFolder::Make(std::filesystem::temp_directory_path().string());
    if (!made.ok()) {
      return Fail(kFailure, StdSv(made.status().message()),
                  "set TMPDIR to a folder that can be written, or give --journal");
    }
    scratch = *std::move(made);
    o.journal = absl::StrCat(scratch->path(), "/journal");
  }
  return Supervisor(std::move(o)).Run();
}

// Adds an option that is handed on, with its value, to the worker or the coordinator.
void PassOn(CLI::App* command, const std::string& name, std::vector<std::string>* to, const std::string& help,
            const std::string& type) {
  command
      ->add_option_function<std::string>(
          name,
          [to, name](const std::string& value) {
            to->push_back(name);
            to->push_back(value);
          },
          help)
      ->type_name(type)
      ->group("Passed on");
}

}  // namespace

void AddUpCommand(CLI::App& app, RunCommand* run) {
  auto o = std::make_shared<UpOptions>();
  CLI::App* command = app.add_subcommand(
      "up",
      "Run a coordinator and a ring of workers on this machine\n\n"
      "Examples:\n"
      "  rondo up --workers 4 --model M.gguf\n"
      "  rondo up --workers 2 --model M.gguf --listen 127.0.0.1:0 --compute f32\n"
      "  rondo up --workers 4                                       # no model: for rondo attend\n"
      "  rondo up --workers 4 --model M.gguf --transport loopback   # one process, no MPI\n"
      "  rondo up --workers 8 --model M.gguf --device cuda --transport nccl   # one rank a GPU\n\n"
      "Prints \"ready ADDRESS\" on stdout when jobs can be taken. A group or a coordinator that dies is started "
      "again.\n"
      "Ctrl-C lets running jobs end for --drain seconds and stops everything; a second Ctrl-C stops at once.");
  command->add_option("--workers", o->workers, "Ranks of the ring")
      ->type_name("N")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--model", o->model, "The model, a GGUF file; without one, attention jobs only (rondo attend)")
      ->type_name("FILE");
  command->add_option("--listen", o->listen, "Where the coordinator listens; port 0 takes a free one")
      ->check(CheckAddress)
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command
      ->add_option(
          "--transport", o->transport,
          "How ranks talk: mpi (a process each), loopback (threads of one); between GPUs nccl or cuda-ipc; auto: "
          "mpi on CPUs, on GPUs nccl, or cuda-ipc where ranks share one")
      ->check(CLI::IsMember({"auto", "mpi", "loopback", "nccl", "cuda-ipc"}))
      ->capture_default_str();
  command
      ->add_option(
          "--device", o->device,
          "Where ranks compute: cpu, cuda (each on the GPU of its place), cuda:INDEX, or auto: GPUs if there are "
          "some that can be used")
      ->check(CheckDeviceName)
      ->type_name("NAME");
  command->add_option("--journal", o->journal, "Keep the journal here; without it, jobs are forgotten when this ends")
      ->type_name("FILE");
  command->add_option("--drain", o->drain_s, "Seconds that running jobs get to end after Ctrl-C")
      ->type_name("S")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
  command->add_flag("--once", o->once,
                    "End with an error when the group or the coordinator ends, and start nothing again");
  std::vector<std::string>* worker = &o->worker_arguments;
  PassOn(command, "--threads", worker, "Threads of each worker; without it the cores are shared out", "T");
  PassOn(command, "--kernels", worker, "Kernels to use: portable, avx2, avx512", "NAME");
  PassOn(command, "--compute", worker, "f32, or q8 for quantised weights", "MODE");
  PassOn(command, "--kv-type", worker, "f32 or bf16; bf16 with q8 unless given", "TYPE");
  PassOn(command, "--kv-memory", worker, "KV memory of each worker, e.g. 4GiB", "SIZE");
  PassOn(command, "--prefill-chunk", worker, "Tokens of a prefill step, or whole", "N");
  PassOn(command, "--strategy", worker, "What goes round the ring in prefill: auto, pass-kv or pass-q", "NAME");
  PassOn(command, "--data-listen", worker, "Where each worker takes tensors of rondo attend", "HOST:PORT");
  PassOn(command, "--queue-limit", &o->coordinator_arguments, "Jobs that may wait", "N");
  PassOn(command, "--max-running", &o->coordinator_arguments, "Jobs at once in one group", "N");
  PassOn(command, "--upload-wait", &o->coordinator_arguments, "Seconds an attention job waits for its tensors", "S");
  PassOn(command, "--attention-keep", &o->coordinator_arguments, "Seconds an attention job's result is kept", "S");
  PassOn(command, "--stall-timeout", &o->coordinator_arguments,
         "Seconds without any progress after which a group that has work is started again; 0: never", "S");
  PassOn(command, "--max-upload", &o->coordinator_arguments, "Largest document, e.g. 64MiB", "SIZE");
  command->add_option("--mpirun", o->mpirun, "The mpirun to use")->type_name("PROGRAM")->capture_default_str();
  command->add_option("--bin", o->bin, "Folder of rondo-coordinator and rondo-worker, if not this program's")
      ->type_name("DIR");
  command->callback([o, run] { *run = [o] { return RunUp(*o); }; });
}

}  // namespace rondo::cli
