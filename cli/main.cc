// rondo: the command-line client, and `rondo up`, which runs a coordinator and a ring of workers on this machine.
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/help_format.h"

namespace {

constexpr char kDescription[] =
    "Inference for sequences too long for one machine: the number of workers changes the time, never the answer\n\n"
    "Examples:\n"
    "  rondo up --workers 4 --model M.gguf                                     # in one terminal\n"
    "  rondo generate --document book.txt --question \"Who wrote the letters?\"  # in another\n"
    "  rondo verify --document book.txt --question \"Who wrote the letters?\"    # are the bits those of one worker?\n"
    "  rondo COMMAND --help";

}  // namespace

int main(int argc, char** argv) {
  using namespace rondo::cli;
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves is an error of the write, not the end of the process
  CLI::App app(kDescription, "rondo");
  app.formatter(std::make_shared<HelpFormat>());
  app.set_version_flag("--version", "rondo " RONDO_VERSION);
  app.require_subcommand(1);
  app.set_help_all_flag();
  RunCommand run;
  AddUpCommand(app, &run);
  AddGenerateCommand(app, &run);
  AddAttendCommand(app, &run);
  AddVerifyCommand(app, &run);
  AddStatusCommand(app, &run);
  AddJobsCommand(app, &run);
  AddCancelCommand(app, &run);
  AddPlanCommand(app, &run);
  AddBenchCommand(app, &run);
  AddTokenizeCommand(app, &run);
  AddDetokenizeCommand(app, &run);
  if (argc == 1) {
    std::fputs(app.help().c_str(), stderr);
    return kUsage;
  }
  const std::string first = argv[1];
  std::string known;
  bool is_known = first.starts_with('-');
  for (const CLI::App* command : app.get_subcommands({})) {
    is_known |= command->get_name() == first;
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  if (!is_known) {
    return Fail(kUsage, "no command is called " + first + "; there are: " + known, "see: rondo --help");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    const auto commands = app.get_subcommands();
    const std::string name = commands.empty() ? "rondo" : "rondo " + commands.front()->get_name();
    return Fail(kUsage, error.what(), "see: " + name + " --help");
  }
  try {
    return run();
  } catch (const std::exception& error) {
    return Fail(kFailure, std::string("unexpected: ") + error.what(), "please report this");
  }
}
