// The picture of a scaling benchmark: speed-up with the ideal line, time over tokens with its exponent, and the ring's
// timeline; an SVG, or an HTML page with the same picture and the tables. No script, no font, no other file.
#pragma once

#include <string>

#include "cli/bench/scale_report.h"
#include "cli/bench/scale_table.h"

namespace rondo::cli {

std::string ScaleSvg(const ScaleReport& report, const BenchFacts& facts);
std::string ScaleHtml(const ScaleReport& report, const BenchFacts& facts);

// The cell whose timeline is drawn and traced: of those with several workers, the most workers at the most tokens; null
// without any.
const ScaleRow* TimelineRow(const ScaleReport& report);

}  // namespace rondo::cli
