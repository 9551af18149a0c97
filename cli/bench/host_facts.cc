#include "cli/bench/host_facts.h"

#include <sched.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace rondo::cli {
namespace {

std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos) {
      return line.substr(line.find(": ") + 2);
    }
  }
  return "unknown CPU";
}

// The words of this process, the program without its folder.
std::string OwnCommand() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string out;
  size_t word = 0;
  for (size_t at = 0; at < text.size(); at = text.find('\0', at) + 1, ++word) {
    std::string piece(text.c_str() + at);
    if (word == 0) piece = std::filesystem::path(piece).filename().string();
    absl::StrAppend(&out, word == 0 ? "" : " ", piece);
    if (text.find('\0', at) == std::string::npos) break;
  }
  return out;
}

}  // namespace

BenchFacts FactsOfThisHost() {
  BenchFacts facts;
  facts.machine = CpuName();
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  facts.cores = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
  facts.date = absl::FormatTime("%Y-%m-%d", absl::Now(), absl::LocalTimeZone());
  facts.command = OwnCommand();
  return facts;
}

std::string OwnFolder() { return std::filesystem::read_symlink("/proc/self/exe").parent_path().string(); }

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int reason = errno;
  if (file != nullptr && (path == "-" ? std::fflush(file) : std::fclose(file)) != 0) {
    written = false;
    reason = errno;
  }
  if (written) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat("cannot write ", path, ": ", std::strerror(reason)));
}

}  // namespace rondo::cli
