// The lanes of a ring's timeline in a plot: when each rank computed, waited for the wire, or waited for a peer.
#pragma once

#include "cli/bench/scale_report.h"
#include "cli/bench/svg.h"

namespace rondo::cli {

double TimelineHeight(const ScaleRow& row);
void DrawTimeline(Svg& svg, const ScaleRow& row, double left, double top, double right);

}  // namespace rondo::cli
