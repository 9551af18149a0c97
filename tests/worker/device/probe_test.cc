// The real look at this machine: with no module, with wrong ones, and with the module just built, where it was.
#include "worker/device/probe.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "worker/device/choose_device.h"
#include "worker/device/gpu_transport.h"

namespace rondo::testing {
namespace {

DeviceRequest Cuda() { return {.kind = DeviceRequest::Kind::kCuda}; }

TEST(Probe, WithoutAModule) {
  const OpenedModule none = OpenGpuModule({"/no/such/librondo_cuda.so", "/nor/this.so"});
  const GpuFacts facts = ProbeGpu(none);
  std::string why;
  EXPECT_EQ(JudgeGpu(Cuda(), {}, facts, &why), GpuReason::kModuleAbsent);
  EXPECT_NE(why.find("there is no /no/such/librondo_cuda.so or /nor/this.so"), std::string::npos) << why;
}

TEST(Probe, AModuleOfAnotherVersionIsNotUsed) {
  const OpenedModule module = OpenGpuModule({"/no/such.so", RONDO_CUDA_other_version});
  EXPECT_EQ(module.table, nullptr);
  EXPECT_FALSE(module.absent);
  EXPECT_NE(module.error.find("is of version 2 and "), std::string::npos) << module.error;
  std::string why;
  EXPECT_EQ(JudgeGpu(Cuda(), {}, ProbeGpu(module), &why), GpuReason::kModuleUnusable);
}

TEST(Probe, ALibraryThatIsNoModuleIsNotUsed) {
  EXPECT_NE(OpenGpuModule({RONDO_CUDA_empty}).error.find("has no rondo_cuda_module_v1_table"), std::string::npos);
  const OpenedModule text = OpenGpuModule({RONDO_SOURCE_DIR "/README.md"});
  EXPECT_FALSE(text.absent);
  EXPECT_NE(text.error.find("README.md"), std::string::npos) << text.error;
}

TEST(Probe, AModuleWithoutItsCublasSaysSo) {
  const OpenedModule module = OpenGpuModule({RONDO_CUDA_without_cublas});
  EXPECT_EQ(module.table, nullptr);
  std::string why;
  EXPECT_EQ(JudgeGpu(Cuda(), {}, ProbeGpu(module), &why), GpuReason::kCublasMissing) << module.error;
  EXPECT_NE(why.find("cuBLASLt is missing: libcublasLt.so.0: cannot open shared object file"), std::string::npos)
      << why;
}

TEST(Probe, TheModuleJustBuiltSaysWhatThisMachineLacks) {
#ifdef RONDO_CUDA_MODULE
  const OpenedModule module = OpenGpuModule({RONDO_CUDA_MODULE});
  ASSERT_NE(module.table, nullptr) << module.error;
  const GpuFacts facts = ProbeGpu(module);
  EXPECT_GE(facts.module_cuda, 12000);
  std::string why;
  const GpuReason reason = JudgeGpu(Cuda(), {}, facts, &why);
  if (std::filesystem::exists("/dev/nvidiactl")) {
    EXPECT_FALSE(facts.devices.empty()) << facts.driver_error;
  } else {
    EXPECT_TRUE(reason == GpuReason::kDriverAbsent || reason == GpuReason::kNoDevice) << why;
    EXPECT_TRUE(facts.devices.empty());
  }
  std::fprintf(stderr, "this machine: %s\n", why.c_str());
#else
  GTEST_SKIP() << "no CUDA toolkit when this was built";
#endif
}

// All kernels or none, and the real cuBLASLt behind them, which says its version without a GPU.
TEST(Probe, TheModuleJustBuiltHasItsDenseKernels) {
#ifdef RONDO_CUDA_MODULE
  const OpenedModule module = OpenGpuModule({RONDO_CUDA_MODULE});
  ASSERT_NE(module.table, nullptr) << module.error;
  // A struct of pointers to functions and nothing else.
  void* functions[sizeof(module.table->dense) / sizeof(void*)];
  std::memcpy(functions, &module.table->dense, sizeof(functions));
  const bool kernels = *module.table->targets != '\0';
  for (size_t i = 0; i < std::size(functions); ++i) EXPECT_EQ(functions[i] != nullptr, kernels) << i;
  if (!kernels) GTEST_SKIP() << "no nvcc when this was built";
  EXPECT_GE(module.table->dense.lt_version(), 120000u);
#else
  GTEST_SKIP() << "no CUDA toolkit when this was built";
#endif
}

TEST(Probe, AModuleThatIsNamedIsTheOnlyOne) {
  ASSERT_EQ(setenv("RONDO_CUDA_MODULE", "/a/b.so", 1), 0);
  EXPECT_EQ(GpuModulePaths(), std::vector<std::string>{"/a/b.so"});
  unsetenv("RONDO_CUDA_MODULE");
  const std::vector<std::string> paths = GpuModulePaths();
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(std::filesystem::path(paths[0]).filename(), kGpuModuleFile);
}

TEST(GpuTransport, TheEpochComesFromTheLaunch) {
  EXPECT_EQ(EpochOf("00000000000000ff0123456789abcdef"), 255u);
  EXPECT_NE(EpochOf("a0000000000000ff0123456789abcdef"), EpochOf("b0000000000000ff0123456789abcdef"));
}

}  // namespace
}  // namespace rondo::testing
