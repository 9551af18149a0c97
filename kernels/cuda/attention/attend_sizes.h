// How many 16-row tiles a warp of AttendMma holds for each head size: what registers allow without spilling.
#pragma once

namespace rondo::cuda {

// Two at D = 64. At D = 128 two would want 128 registers for o and 64 for scores beside some 70 others, of 255.
constexpr int WarpTiles(int head_dim) { return head_dim == 64 ? 2 : 1; }

}  // namespace rondo::cuda
