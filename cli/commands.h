// The commands of `rondo`, one file each (cmd_NAME.cc); main.cc puts them together.
#pragma once

#include <functional>

#include "CLI/CLI.hpp"

namespace rondo::cli {

// Adds the command to `app`. When it is the one that was named, `*run` becomes what runs it: it returns the exit code.
using RunCommand = std::function<int()>;

void AddBenchCommand(CLI::App& app, RunCommand* run);
void AddUpCommand(CLI::App& app, RunCommand* run);
void AddGenerateCommand(CLI::App& app, RunCommand* run);
void AddAttendCommand(CLI::App& app, RunCommand* run);
void AddVerifyCommand(CLI::App& app, RunCommand* run);
void AddStatusCommand(CLI::App& app, RunCommand* run);
void AddJobsCommand(CLI::App& app, RunCommand* run);
void AddCancelCommand(CLI::App& app, RunCommand* run);
void AddPlanCommand(CLI::App& app, RunCommand* run);
void AddTokenizeCommand(CLI::App& app, RunCommand* run);
void AddDetokenizeCommand(CLI::App& app, RunCommand* run);

}  // namespace rondo::cli
