// cuDNN plans of every shape the GPU table measures, built for sm_90 on a machine that has none: says whether cuDNN
// would take them, nothing about numbers. Skipped (77) where libcudnn is not found.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "absl/status/status.h"
#include "kernels/cuda/cudnn/sdpa.h"
#include "tests/kernels/cuda/cudnn/h200_properties.h"

namespace rondo::cuda {
namespace {

using ::testing::HasSubstr;

CudnnSdpaShape TableShape(int64_t head_dim, bool causal, int64_t tokens) {
  return {64, 8, head_dim, tokens, tokens, causal, 1 / std::sqrt(static_cast<float>(head_dim))};
}

class TablePlan : public ::testing::TestWithParam<std::tuple<int64_t, bool, int64_t>> {};

TEST_P(TablePlan, IsBuiltForSm90) {
  const auto [head_dim, causal, tokens] = GetParam();
  const auto plan = CudnnSdpa::CreateFor(kH200Properties, TableShape(head_dim, causal, tokens));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->form(), causal ? CudnnSdpaForm::kGraph : CudnnSdpaForm::kOperation);
  EXPECT_LE((*plan)->workspace_bytes(), size_t{64} << 20);
}

INSTANTIATE_TEST_SUITE_P(GpuTable, TablePlan,
                         ::testing::Combine(::testing::Values(64, 128, 256), ::testing::Bool(),
                                            ::testing::Values(2048, 32768)));  // the ends of the table

TEST(Plan, GraphServesWhereTheOperationDoes) {
  const auto plan = CudnnSdpa::CreateFor(kH200Properties, TableShape(128, false, 4001), CudnnSdpaForm::kGraph);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->form(), CudnnSdpaForm::kGraph);
}

TEST(Plan, OperationHasNoCausalForm) {
  const auto plan = CudnnSdpa::CreateFor(kH200Properties, TableShape(128, true, 4096), CudnnSdpaForm::kOperation);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(plan.status().ToString(), HasSubstr("no causal form"));
}

TEST(Plan, WithoutADeviceDoesNotRun) {
  const auto plan = CudnnSdpa::CreateFor(kH200Properties, TableShape(128, false, 2048));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->Run({}, nullptr).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Plan, CardTooOldForAttentionIsNamedByCudnn) {
  std::string properties = kH200Properties;
  const std::string version = "\"deviceVer\": 900";
  properties.replace(properties.find(version), version.size(), "\"deviceVer\": 700");
  const auto plan = CudnnSdpa::CreateFor(properties, TableShape(128, true, 4096));
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.status().ToString(), HasSubstr("cuDNN: "));
}

TEST(Plan, PropertiesThatAreNotJsonAreRefused) {
  const auto plan = CudnnSdpa::CreateFor("not json", TableShape(128, true, 4096));
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.status().ToString(), HasSubstr("device properties"));
}

struct BadShape {
  CudnnSdpaShape shape;
  const char* message;
};
class Refused : public ::testing::TestWithParam<BadShape> {};

TEST_P(Refused, NamesFieldValueAndLimit) {
  const auto plan = CudnnSdpa::CreateFor(kH200Properties, GetParam().shape);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(plan.status().ToString(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Refused,
    ::testing::Values(BadShape{{64, 7, 128, 16, 16, false, 1}, "kv_heads is 7, must divide q_heads 64"},
                      BadShape{{64, 0, 128, 16, 16, false, 1}, "kv_heads is 0, must be at least 1"},
                      BadShape{{0, 8, 128, 16, 16, false, 1}, "q_heads is 0, must be at least 1"},
                      BadShape{{64, 8, 264, 16, 16, false, 1}, "head_dim is 264, must be a multiple of 8 up to 256"},
                      BadShape{{64, 8, 100, 16, 16, false, 1}, "head_dim is 100, must be a multiple of 8 up to 256"},
                      BadShape{{64, 8, 128, 0, 16, false, 1}, "q_tokens is 0, must be at least 1"},
                      BadShape{{64, 8, 128, 16, 0, false, 1}, "kv_tokens is 0, must be at least 1"},
                      BadShape{{64, 8, 128, 32, 16, true, 1},
                               "q_tokens is 32, must not exceed kv_tokens 16 with a causal mask"},
                      BadShape{{64, 8, 128, 16, 16, false, 0}, "scale is 0, must be positive"}));

}  // namespace
}  // namespace rondo::cuda

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  // Under the driver's name, so that cuDNN finds it and not a driver that may be there.
  if (dlopen(RONDO_STUB_DRIVER, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "plan_test: %s\n", dlerror());
    return 1;
  }
  if (const auto version = rondo::cuda::CudnnVersion(); !version.ok()) {
    std::printf("skipped: %s\n", version.status().ToString().c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
