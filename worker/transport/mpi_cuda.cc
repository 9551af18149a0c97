#include "worker/transport/mpi_cuda.h"

#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace rondo {

MpiCudaSupport AskMpiCudaSupport() {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1 ? MpiCudaSupport::kYes : MpiCudaSupport::kNo;
#else
  return MpiCudaSupport::kCannotBeAsked;
#endif
}

std::string Describe(MpiCudaSupport support) {
  switch (support) {
    case MpiCudaSupport::kNo:
      return "this MPI says that it has no CUDA support";
    case MpiCudaSupport::kYes:
      return "this MPI says that it has CUDA support, which is not used";
    case MpiCudaSupport::kCannotBeAsked:
      break;
  }
  return "this MPI cannot be asked about CUDA support";
}

}  // namespace rondo
