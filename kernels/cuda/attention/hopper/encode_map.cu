#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include "kernels/cuda/attention/hopper/attend_hopper.h"
#include "kernels/cuda/attention/hopper/encode_map.h"

namespace rondo::cuda {
namespace {

using Encode = PFN_cuTensorMapEncodeTiled_v12000;

// Null with `wrong` where the driver has none.
Encode FindEncode(std::string* wrong) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
  if (error == cudaSuccess && result == cudaDriverEntryPointSuccess) return reinterpret_cast<Encode>(found);
  *wrong = std::string("cuTensorMapEncodeTiled, of CUDA 12, is not in this driver: ") + cudaGetErrorString(error);
  return nullptr;
}

}  // namespace

std::string EncodeMap(const char* what, const MapSpec& spec, CUtensorMap* map) {
  std::string wrong;
  static const Encode encode = FindEncode(&wrong);
  if (encode == nullptr) return wrong.empty() ? "cuTensorMapEncodeTiled, of CUDA 12, is not in this driver" : wrong;
  const cuuint32_t every_element[4] = {1, 1, 1, 1};
  cuuint64_t size[4], stride[4];
  for (int i = 0; i < spec.dimensions; ++i) size[i] = spec.size[i];
  for (int i = 1; i < spec.dimensions; ++i) stride[i - 1] = spec.stride_bytes[i];
  // 16-bit elements of any type: they are copied, and zeros are zeros. Lines of 256 bytes in L2: the next slab's, too.
  const CUresult result = encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT16, static_cast<cuuint32_t>(spec.dimensions),
                                 reinterpret_cast<void*>(spec.base), size, stride, spec.box.data(), every_element,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return {};
  wrong =
      "cuTensorMapEncodeTiled refuses the map of " + std::string(what) + " with error " + std::to_string(result) + ":";
  for (int i = 0; i < spec.dimensions; ++i) {
    wrong += " size " + std::to_string(spec.size[i]) + " stride " + std::to_string(spec.stride_bytes[i]) + ";";
  }
  return wrong;
}

std::string CheckHopperMaps(int head_dim) {
  AttentionArgs args;
  args.q_heads = args.kv_heads = 2;
  args.query.q = reinterpret_cast<const void*>(kMapBase);  // nobody reads it
  args.query.rows = 2;
  args.query.row_stride = 2 * int64_t{head_dim};
  args.query.head_stride = head_dim;
  args.keys.tokens = 1;
  args.keys.row_stride = head_dim;
  CUtensorMap map;
  if (std::string wrong = EncodeMap("queries", QueryMap(args, head_dim), &map); !wrong.empty()) return wrong;
  return EncodeMap("keys and values", KeyMap(args, head_dim), &map);
}

}  // namespace rondo::cuda
