// Whether the MPI library says of itself that it can send from device memory; for the log of ranks on GPUs over MPI.
#pragma once

#include <string>

namespace rondo {

// Rondo copies device memory through pinned host memory whatever the answer: no MPI with CUDA support has been at hand
// to test anything else with.
enum class MpiCudaSupport { kCannotBeAsked, kNo, kYes };

MpiCudaSupport AskMpiCudaSupport();  // MPIX_Query_cuda_support, where this MPI has it; after MPI has started

// "this MPI says that it has no CUDA support".
std::string Describe(MpiCudaSupport support);

}  // namespace rondo
