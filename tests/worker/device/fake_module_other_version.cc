// A GPU module of a version that does not exist yet.
#include "kernels/cuda/module.h"

extern "C" const rondo_cuda_module_v1* rondo_cuda_module_v1_table(void) {
  static rondo_cuda_module_v1 table = {};
  table.version = 2;
  table.size = sizeof(table);
  return &table;
}
