// One cell of the scaling benchmark as scale_rank was asked for it; used by the parts of scale_rank.
#pragma once

#include <cstdint>
#include <string>

#include "rondo/compute.h"

namespace rondo {

struct CellOptions {
  int64_t tokens = 4096;
  int threads = 1;  // of each rank
  int ranks = 0;    // > 0: that many ranks as threads of this process, without MPI
  uint64_t seed = 1;
  std::string kernels;            // empty: the best
  std::string heads = "8/2x64";   // of a tensor cell
  std::string strategy = "auto";  // of a tensor cell
  std::string model;              // a GGUF file makes it a model cell
  std::string compute;            // of a model cell; empty: q8 where the model is quantised
  KvType kv_type = KvType::kF32;  // how keys and values are kept and sent
  int64_t prefill_chunk = 0;      // of a model cell; 0: the whole prompt at once
};

}  // namespace rondo
