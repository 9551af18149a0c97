// What MPI says of its CUDA support, against what Open MPI's own program says of it.
#include "worker/transport/mpi_cuda.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace rondo {
namespace {

TEST(MpiCuda, SaysWhatOmpiInfoSays) {
  std::FILE* const info = popen("ompi_info --parsable --all 2>/dev/null", "r");
  ASSERT_NE(info, nullptr);
  std::string line, found;
  for (int c; (c = std::fgetc(info)) != EOF; line += static_cast<char>(c)) {
    if (c != '\n') continue;
    if (line.find("mpi_built_with_cuda_support:value:") != std::string::npos) found = line.substr(line.rfind(':') + 1);
    line.clear();
  }
  pclose(info);
  if (found.empty()) GTEST_SKIP() << "no ompi_info, or it says nothing of CUDA";
  EXPECT_EQ(AskMpiCudaSupport(), found == "true" ? MpiCudaSupport::kYes : MpiCudaSupport::kNo) << found;
}

TEST(MpiCuda, EveryAnswerHasItsWords) {
  EXPECT_EQ(Describe(MpiCudaSupport::kNo), "this MPI says that it has no CUDA support");
  EXPECT_EQ(Describe(MpiCudaSupport::kYes), "this MPI says that it has CUDA support, which is not used");
  EXPECT_EQ(Describe(MpiCudaSupport::kCannotBeAsked), "this MPI cannot be asked about CUDA support");
}

}  // namespace
}  // namespace rondo
