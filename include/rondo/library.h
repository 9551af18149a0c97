// What a program needs beside ring.h to run ring attention by itself: kernels for this CPU and threads for them. Used by
// programs that link the installed library (find_package(rondo)); for ranks under MPI see mpi.h.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "rondo/attention_kernels.h"

namespace rondo {

class ThreadPool;

// The attention kernels called `name`: portable, avx2, avx512 (the same bits) or ref (float64, its own). Empty: the
// fastest this CPU has, or the one the environment variable RONDO_KERNELS names. They live as long as the program.
// INVALID_ARGUMENT for an unknown name, FAILED_PRECONDITION naming what the CPU lacks.
absl::StatusOr<const AttentionKernels*> FindAttentionKernels(std::string_view name = {});

// `threads` >= 1 in all, the caller's among them. One thread at a time may use a pool.
std::shared_ptr<ThreadPool> MakeThreadPool(int threads);

}  // namespace rondo
