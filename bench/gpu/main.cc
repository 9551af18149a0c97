// The program behind bench/gpu_check: `gpu_check_sections NAME` runs one section and prints JSON lines (lines.h). Exit
// code 0: ran to its end (whether its checks passed is in the lines), 2: failed to run, 64: no such section.
#include <cstdio>
#include <string_view>

#include "bench/gpu/sections.h"

namespace {

struct Section {
  std::string_view name;
  void (*run)();
};

constexpr Section kSections[] = {
    {"device", rondo::gpu_check::SayDevice},   {"accuracy", rondo::gpu_check::CheckAccuracy},
    {"law", rondo::gpu_check::CheckLaw},       {"small", rondo::gpu_check::CheckSmall},
    {"speed", rondo::gpu_check::MeasureSpeed}, {"speed_alone", rondo::gpu_check::MeasureSpeedAlone},
    {"ring", rondo::gpu_check::MeasureRing},   {"decode", rondo::gpu_check::MeasureDecode},
    {"dense", rondo::gpu_check::MeasureDense}, {"exchange", rondo::gpu_check::MeasureExchange},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc == 2 ? argv[1] : "";
  for (const Section& section : kSections) {
    if (section.name != name) continue;
    section.run();
    return 0;
  }
  std::fprintf(stderr, "usage: gpu_check_sections SECTION, one of:");
  for (const Section& section : kSections) std::fprintf(stderr, " %s", section.name.data());
  std::fprintf(stderr, "\n");
  return 64;
}
