// rondo bench: what this machine or cluster does, beside what it could.
#include "cli/bench/commands.h"

namespace rondo::cli {

void AddBenchCommand(CLI::App& app, RunCommand* run) {
  CLI::App* command =
      app.add_subcommand("bench",
                         "Measure kernels, the ring, scaling over workers, and a running coordinator\n\n"
                         "Examples:\n"
                         "  rondo bench attention --json attention.json\n"
                         "  rondo bench scale --workers 1,2,4 --tokens 4k,16k --plot scale.html\n"
                         "  rondo bench serve --clients 4 --prompt 512 --answer 64\n"
                         "  rondo bench scale --help");
  command->require_subcommand(1);
  AddBenchProgramCommands(*command, run);
  AddBenchScaleCommand(*command, run);
  AddBenchServeCommand(*command, run);
}

}  // namespace rondo::cli
