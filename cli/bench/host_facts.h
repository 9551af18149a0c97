// What a benchmark says of the machine it ran on.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "cli/bench/scale_table.h"

namespace rondo::cli {

// Of this machine, now; `command` is how the user called us, taken from /proc/self/cmdline.
BenchFacts FactsOfThisHost();

// Folder of this program: the other programs lie beside it.
std::string OwnFolder();

// Writes the whole file; "-" is stdout. The error names the file and why.
absl::Status WriteText(const std::string& path, const std::string& text);

}  // namespace rondo::cli
