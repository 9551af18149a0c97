// How many 16-row tiles a warp of AttendMma holds for each head size: what registers allow without spilling.
#pragma once

namespace rondo::cuda {

// Two halve the shared-memory traffic of K and V, which bounds mma.sync; ptxas (13.0) spills a few registers at D = 64
// with two, and hundreds of bytes at D = 128.
constexpr int WarpTiles(int /*head_dim*/) { return 1; }

}  // namespace rondo::cuda
