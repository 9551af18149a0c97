#include "tests/kernels/cuda/dense/fake_cublaslt.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "tests/testing/simt/small_floats.h"

namespace rondo::cuda {

FakeCublasLt& Fake() {
  static FakeCublasLt fake;
  return fake;
}

namespace {

// What the opaque structs hold here.
struct MatrixFacts {
  uint64_t type, rows, cols, ld;
};
struct DescFacts {
  uint64_t transpose_a;
};
struct PreferenceFacts {
  uint64_t workspace, whole_only;
};
// Tells an algorithm that the fake gave out.
constexpr uint64_t kMark = 0x72d0;
struct AlgorithmFacts {
  uint64_t mark, splits, uneven;
};

template <class Facts, class Opaque>
Facts Read(const Opaque* opaque) {
  static_assert(sizeof(Facts) <= sizeof(Opaque));
  Facts facts;
  std::memcpy(&facts, opaque, sizeof(facts));
  return facts;
}
template <class Opaque, class Facts>
void Write(Opaque* opaque, const Facts& facts) {
  static_assert(sizeof(Facts) <= sizeof(Opaque));
  std::memcpy(opaque, &facts, sizeof(facts));
}
template <class Opaque, class Facts>
cublasStatus_t Make(Opaque** out, const Facts& facts) {
  *out = new Opaque{};
  ++Fake().live;
  Write(*out, facts);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Opaque>
cublasStatus_t Drop(Opaque* opaque) {
  --Fake().live;
  delete opaque;
  return CUBLAS_STATUS_SUCCESS;
}

double Element(const void* matrix, const MatrixFacts& facts, uint64_t row, uint64_t col) {
  RONDO_CHECK(row < facts.rows && col < facts.cols && facts.ld >= facts.rows);
  const uint64_t i = col * facts.ld + row;
  if (facts.type == CUDA_R_32F) return static_cast<const float*>(matrix)[i];
  const uint16_t bits = static_cast<const uint16_t*>(matrix)[i];
  return facts.type == CUDA_R_16BF ? simt::Bf16ToFloat(bits) : simt::Fp16ToFloat(bits);
}
void SetElement(void* matrix, const MatrixFacts& facts, uint64_t row, uint64_t col, double value) {
  const uint64_t i = col * facts.ld + row;
  const auto f = static_cast<float>(value);
  if (facts.type == CUDA_R_32F) {
    static_cast<float*>(matrix)[i] = f;
  } else {
    static_cast<uint16_t*>(matrix)[i] = facts.type == CUDA_R_16BF ? simt::FloatToBf16(f) : simt::FloatToFp16(f);
  }
}

}  // namespace
}  // namespace rondo::cuda

using namespace rondo::cuda;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (Fake().fail_create) return CUBLAS_STATUS_NOT_INITIALIZED;
  ++Fake().live;
  *handle = reinterpret_cast<cublasLtHandle_t>(&Fake());
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  --Fake().live;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_INITIALIZED ? "CUBLAS_STATUS_NOT_INITIALIZED" : "another status";
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
  return Make(layout, MatrixFacts{static_cast<uint64_t>(type), rows, cols, static_cast<uint64_t>(ld)});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return Drop(layout); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  RONDO_CHECK(compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F);
  return Make(desc, DescFacts{});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return Drop(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  RONDO_CHECK(attribute == CUBLASLT_MATMUL_DESC_TRANSA && bytes == sizeof(int32_t));
  int32_t operation;
  std::memcpy(&operation, value, bytes);
  Write(desc, DescFacts{operation == CUBLAS_OP_T});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return Make(preference, PreferenceFacts{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) { return Drop(preference); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  auto facts = Read<PreferenceFacts>(preference);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    RONDO_CHECK(bytes == sizeof(uint64_t));
    std::memcpy(&facts.workspace, value, bytes);
  } else {
    RONDO_CHECK(bytes == sizeof(uint32_t));
    uint32_t word;
    std::memcpy(&word, value, bytes);
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) facts.whole_only = word == 0;
  }
  Write(preference, facts);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results, int* returned) {
  const auto facts = Read<PreferenceFacts>(preference);
  RONDO_CHECK(facts.whole_only && facts.workspace > 0 && requested >= 3);
  ++Fake().heuristics;
  *returned = Fake().only_split ? 2 : Fake().uneven ? 4 : 3;
  // Split, not to be used, perhaps one that does not treat rows alike, and the one to take.
  for (int i = 0; i < *returned; ++i) {
    results[i] = {};
    results[i].state = i == 1 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    Write(&results[i].algo, AlgorithmFacts{kMark, i == 0 ? 4u : 1u, Fake().uneven && i == 2});
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                    size_t bytes, size_t* written) {
  RONDO_CHECK(bytes == 4);
  const bool splits = attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM;
  const auto answer = static_cast<uint32_t>(splits ? Read<AlgorithmFacts>(algorithm).splits : 0);
  std::memcpy(value, &answer, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t) {
  const auto chosen = Read<AlgorithmFacts>(algorithm);
  RONDO_CHECK(chosen.mark == kMark && chosen.splits == 1);
  RONDO_CHECK(workspace != nullptr && workspace_bytes > 0 && c == d);
  RONDO_CHECK(*static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0);
  RONDO_CHECK(Read<DescFacts>(desc).transpose_a == 1);
  const auto of_a = Read<MatrixFacts>(a_layout), of_b = Read<MatrixFacts>(b_layout), of_d = Read<MatrixFacts>(d_layout);
  RONDO_CHECK(of_a.rows == of_b.rows && of_a.cols == of_d.rows && of_b.cols == of_d.cols && of_a.type == of_b.type);
  ++Fake().products;
  RONDO_CHECK(Fake().columns == 0 || Fake().columns == static_cast<int64_t>(of_d.cols));
  Fake().columns = static_cast<int64_t>(of_d.cols);
  for (uint64_t col = 0; col < of_d.cols; ++col) {
    for (uint64_t row = 0; row < of_d.rows; ++row) {
      double sum = 0;
      for (uint64_t k = 0; k < of_a.rows; ++k) sum += Element(a, of_a, k, row) * Element(b, of_b, k, col);
      if (chosen.uneven && col + 1 == of_d.cols) sum += 0.25;
      SetElement(d, of_d, row, col, sum);
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  ++Fake().live;
  *memory = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  --Fake().live;
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "an error"; }

}  // extern "C"
