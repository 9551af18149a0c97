// Rows copied and added between matrices of any strides, to the bit, and nothing beside them touched.
#include "kernels/cuda/dense/move_rows.cuh"

#include "tests/kernels/cuda/dense/emulated.h"

namespace rondo::cuda {
namespace {

// `to` after the move of [rows, cols] from a matrix of rows from_stride apart.
std::vector<float> Moved(const std::vector<float>& from, std::vector<float> to, MoveRowsArgs args,
                         const HowToRun& how = {}) {
  EmulatedLaunch launch(how);
  args.from = launch.In(from, "from");
  args.to = launch.Out(to, "to");
  launch.Run(kMoveThreads, 0, [&] { MoveRows(args); });
  return to;
}

void ExpectRight(int64_t rows, int64_t cols, int64_t from_stride, int64_t to_stride, const HowToRun& how = {}) {
  const std::vector<float> from = Uniform(rows * from_stride, 1, 31), to = Uniform(rows * to_stride, 1, 32);
  for (const bool add : {false, true}) {
    std::vector<float> expected = to;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        float& e = expected[r * to_stride + c];
        e = add ? e + from[r * from_stride + c] : from[r * from_stride + c];
      }
    }
    const std::vector<float> got = Moved(
        from, to, {.from_stride = from_stride, .to_stride = to_stride, .rows = rows, .cols = cols, .add = add}, how);
    EXPECT_TRUE(SameBits(got, expected)) << rows << " x " << cols << (add ? " added" : " copied");
  }
}

TEST(CudaMoveRows, AnyStrides) {
  ExpectRight(1, 1, 1, 1);
  ExpectRight(5, 281, 288, 281);
  ExpectRight(5, 281, 281, 290);
  ExpectRight(1, 4000, 4000, 4000);
  ExpectRight(0, 8, 8, 8);
}

TEST(CudaMoveRows, EverySchedule) {
  for (const simt::Options& options : simt::AllSchedules(9)) ExpectRight(3, 300, 304, 300, {.options = options});
}

}  // namespace
}  // namespace rondo::cuda
