#include "kernels/cuda/dense/lt_matmul.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rondo::cuda {
namespace {

// NVIDIA's advice for Hopper; fixed, since what is offered to the heuristic is part of the choice.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr uint32_t kAlignment = 16;
// More than it returns in practice without split-K.
constexpr int kMostCandidates = 32;

absl::Status Check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", cublasLtGetStatusString(status)));
}

// Owns one of the library's descriptors.
template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr) kDestroy(handle_);
  }
  Handle get() const { return handle_; }
  Handle* out() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};

using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;
using Library = Owned<cublasLtHandle_t, cublasLtDestroy>;

cudaDataType_t TypeOf(RowType type) {
  return type == RowType::kF32 ? CUDA_R_32F : type == RowType::kBf16 ? CUDA_R_16BF : CUDA_R_16F;
}

// All that a call needs and that depends on the shape alone. cuBLASLt's matrices are column-major, so a row of ours is
// a column of its: y^T [n, rows] = weight [n, k] * x^T [k, rows], and the weight, [k, n] to it, is transposed.
struct Plan {
  Operation operation;
  Layout weight, x, y;
  cublasLtMatmulAlgo_t algorithm;
};

absl::Status Describe(const LtMatMulArgs& args, Plan* plan) {
  const cudaDataType_t type = TypeOf(args.type);
  const cublasOperation_t transpose = CUBLAS_OP_T;
  const auto n = static_cast<uint64_t>(args.n), k = static_cast<uint64_t>(args.k);
  if (absl::Status s = Check(cublasLtMatmulDescCreate(plan->operation.out(), CUBLAS_COMPUTE_32F, CUDA_R_32F),
                             "cublasLtMatmulDescCreate");
      !s.ok()) {
    return s;
  }
  if (absl::Status s = Check(cublasLtMatmulDescSetAttribute(plan->operation.get(), CUBLASLT_MATMUL_DESC_TRANSA,
                                                            &transpose, sizeof(transpose)),
                             "cublasLtMatmulDescSetAttribute(TRANSA)");
      !s.ok()) {
    return s;
  }
  cublasStatus_t status = cublasLtMatrixLayoutCreate(plan->weight.out(), type, k, n, args.k);
  if (status == CUBLAS_STATUS_SUCCESS) status = cublasLtMatrixLayoutCreate(plan->x.out(), type, k, kLtRows, args.k);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = cublasLtMatrixLayoutCreate(plan->y.out(), TypeOf(args.y_type), n, kLtRows, args.n);
  }
  return Check(status, "cublasLtMatrixLayoutCreate");
}

absl::StatusOr<Preference> MakePreference() {
  Preference preference;
  cublasStatus_t status = cublasLtMatmulPreferenceCreate(preference.out());
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    if (status != CUBLAS_STATUS_SUCCESS) return;
    status = cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kAlignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kAlignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kAlignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kAlignment);
  if (absl::Status s = Check(status, "cublasLtMatmulPreference"); !s.ok()) return s;
  return preference;
}

// Whether the inner dimension stays whole. What cannot be read counts as split.
bool IsWhole(const cublasLtMatmulAlgo_t& algorithm) {
  int32_t splits = 0;
  uint32_t scheme = 1;
  size_t written = 0;
  const cublasStatus_t a = cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                                                sizeof(splits), &written);
  const cublasStatus_t b = cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                                &scheme, sizeof(scheme), &written);
  // 0 and 1 both mean that there is one part.
  return a == CUBLAS_STATUS_SUCCESS && b == CUBLAS_STATUS_SUCCESS && (splits == 0 || splits == 1) &&
         scheme == CUBLASLT_REDUCTION_SCHEME_NONE;
}

cublasStatus_t MultiplyChunk(cublasLtHandle_t library, const Plan& plan, const void* weight, const void* x, void* y,
                             void* workspace, void* stream) {
  const float one = 1, zero = 0;
  return cublasLtMatmul(library, plan.operation.get(), &one, weight, plan.weight.get(), x, plan.x.get(), &zero, y,
                        plan.y.get(), y, plan.y.get(), &plan.algorithm, workspace, kWorkspaceBytes,
                        static_cast<cudaStream_t>(stream));
}

// Device memory of a trial.
class TrialMemory {
 public:
  static absl::StatusOr<TrialMemory> Of(size_t bytes) {
    TrialMemory memory;
    const cudaError_t error = cudaMalloc(&memory.data_, bytes);
    if (error == cudaSuccess) return memory;
    return absl::ResourceExhaustedError(
        absl::StrCat("cudaMalloc of ", bytes, " bytes to try cuBLASLt: ", cudaGetErrorString(error)));
  }
  TrialMemory(TrialMemory&& other) : data_(std::exchange(other.data_, nullptr)) {}
  ~TrialMemory() {
    if (data_ != nullptr) cudaFree(data_);
  }
  char* get() const { return static_cast<char*>(data_); }

 private:
  TrialMemory() = default;
  void* data_ = nullptr;
};

// Fills device memory with 16-bit numbers in (-2, 2), the same every `period` of them.
absl::Status FillTrial(char* to, int64_t count, int64_t period, uint32_t seed) {
  std::vector<uint16_t> numbers(static_cast<size_t>(std::min(count, period)));
  for (uint16_t& number : numbers) {
    seed = seed * 1664525u + 1013904223u;
    // Any sign, any mantissa, and an exponent below 1: of bf16 and of fp16.
    number = static_cast<uint16_t>((seed >> 16 & 0x80ffu) | 0x3b00u);
  }
  for (int64_t at = 0; at < count; at += period) {
    const cudaError_t error = cudaMemcpy(to + at * 2, numbers.data(),
                                         static_cast<size_t>(std::min(period, count - at)) * 2, cudaMemcpyHostToDevice);
    if (error != cudaSuccess) return absl::InternalError(absl::StrCat("cudaMemcpy: ", cudaGetErrorString(error)));
  }
  return absl::OkStatus();
}

// Whether a row's bits do not depend on its place in the chunk, tried with a chunk of equal rows: an algorithm may deal
// out the inner dimension by tiles, and no attribute need say so.
absl::StatusOr<bool> RowsAgree(cublasLtHandle_t library, const LtMatMulArgs& args, const Plan& plan, void* workspace) {
  constexpr int64_t kPeriod = int64_t{1} << 20;
  const size_t row_bytes = static_cast<size_t>(args.n) * (args.y_type == RowType::kF32 ? 4 : 2);
  absl::StatusOr<TrialMemory> weight = TrialMemory::Of(static_cast<size_t>(args.n * args.k) * 2);
  if (!weight.ok()) return weight.status();
  absl::StatusOr<TrialMemory> x = TrialMemory::Of(static_cast<size_t>(kLtRows * args.k) * 2);
  if (!x.ok()) return x.status();
  absl::StatusOr<TrialMemory> y = TrialMemory::Of(kLtRows * row_bytes);
  if (!y.ok()) return y.status();
  if (absl::Status s = FillTrial(weight->get(), args.n * args.k, kPeriod, 1); !s.ok()) return s;
  if (absl::Status s = FillTrial(x->get(), kLtRows * args.k, args.k, 2); !s.ok()) return s;
  const cublasStatus_t status = MultiplyChunk(library, plan, weight->get(), x->get(), y->get(), workspace, nullptr);
  if (absl::Status s = Check(status, "cublasLtMatmul"); !s.ok()) return s;
  std::vector<char> rows(kLtRows * row_bytes);
  if (const cudaError_t error = cudaMemcpy(rows.data(), y->get(), rows.size(), cudaMemcpyDeviceToHost);
      error != cudaSuccess) {
    return absl::InternalError(absl::StrCat("trying cuBLASLt: ", cudaGetErrorString(error)));
  }
  for (int64_t row = 1; row < kLtRows; ++row) {
    if (std::memcmp(rows.data(), rows.data() + row * row_bytes, row_bytes) != 0) return false;
  }
  return true;
}

// The first of the library's own order that is whole and treats all rows alike.
absl::Status Choose(cublasLtHandle_t library, const LtMatMulArgs& args, void* workspace, Plan* plan) {
  absl::StatusOr<Preference> preference = MakePreference();
  if (!preference.ok()) return preference.status();
  cublasLtMatmulHeuristicResult_t candidates[kMostCandidates];
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library, plan->operation.get(), plan->weight.get(), plan->x.get(), plan->y.get(),
                                     plan->y.get(), preference->get(), kMostCandidates, candidates, &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
    if (absl::Status s = Check(status, "cublasLtMatmulAlgoGetHeuristic"); !s.ok()) return s;
    for (int i = 0; i < count; ++i) {
      if (candidates[i].state != CUBLAS_STATUS_SUCCESS || !IsWhole(candidates[i].algo)) continue;
      plan->algorithm = candidates[i].algo;
      const absl::StatusOr<bool> agree = RowsAgree(library, args, *plan, workspace);
      if (!agree.ok()) return agree.status();
      if (*agree) return absl::OkStatus();
    }
  }
  return absl::UnimplementedError(absl::StrCat("cuBLASLt has no algorithm that treats all rows alike for n ", args.n,
                                               ", k ", args.k, ", ", kLtRows, " rows"));
}

const char* NameOf(RowType type) { return type == RowType::kF32 ? "f32" : type == RowType::kBf16 ? "bf16" : "fp16"; }

absl::Status Validate(const LtMatMulArgs& args) {
  const auto bad = [](const char* field, auto value, const char* limit) {
    return absl::InvalidArgumentError(absl::StrCat("matmul: ", field, " is ", value, ", must be ", limit));
  };
  if (args.type == RowType::kF32) return bad("type", "f32", "bf16 or fp16");
  if (args.y_type != RowType::kF32 && args.y_type != args.type) {
    return bad("y_type", NameOf(args.y_type), args.type == RowType::kBf16 ? "f32 or bf16" : "f32 or fp16");
  }
  if (args.rows < 0) return bad("rows", args.rows, "0 or more");
  if (args.n <= 0 || args.n % 8 != 0) return bad("n", args.n, "a positive multiple of 8");
  if (args.k <= 0 || args.k % 8 != 0) return bad("k", args.k, "a positive multiple of 8");
  const std::pair<const char*, const void*> pointers[] = {{"weight", args.weight}, {"x", args.x}, {"y", args.y}};
  for (const auto& [field, pointer] : pointers) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (address % kAlignment != 0) return bad(field, absl::StrCat("at ", address), "on 16 bytes");
  }
  return absl::OkStatus();
}

class LtMatMulImpl final : public LtMatMul {
 public:
  LtMatMulImpl(Library library, void* workspace) : library_(std::move(library)), workspace_(workspace) {}
  ~LtMatMulImpl() override { cudaFree(workspace_); }

  absl::Status Prepare(RowType type, RowType y_type, int64_t n, int64_t k) override {
    LtMatMulArgs args{.type = type, .y_type = y_type, .n = n, .k = k};
    if (absl::Status s = Validate(args); !s.ok()) return s;
    return PlanFor(args).status();
  }

  absl::Status Run(const LtMatMulArgs& args, void* stream) override {
    if (absl::Status s = Validate(args); !s.ok()) return s;
    const absl::StatusOr<const Plan*> found = PlanFor(args);
    if (!found.ok()) return found.status();
    const Plan& plan = **found;
    const int64_t x_chunk_bytes = kLtRows * args.k * 2;
    const int64_t y_chunk_bytes = kLtRows * args.n * (args.y_type == RowType::kF32 ? 4 : 2);
    for (int64_t chunk = 0; chunk < LtPaddedRows(args.rows) / kLtRows; ++chunk) {
      const void* x = static_cast<const char*>(args.x) + chunk * x_chunk_bytes;
      void* y = static_cast<char*>(args.y) + chunk * y_chunk_bytes;
      const cublasStatus_t status = MultiplyChunk(library_.get(), plan, args.weight, x, y, workspace_, stream);
      if (absl::Status s = Check(status, "cublasLtMatmul"); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<const Plan*> PlanFor(const LtMatMulArgs& args) {
    const Key key{args.type, args.y_type, args.n, args.k};
    if (const auto found = plans_.find(key); found != plans_.end()) return &found->second;
    Plan plan;
    if (absl::Status s = Describe(args, &plan); !s.ok()) return s;
    if (absl::Status s = Choose(library_.get(), args, workspace_, &plan); !s.ok()) return s;
    return &plans_.emplace(key, std::move(plan)).first->second;
  }

  using Key = std::tuple<RowType, RowType, int64_t, int64_t>;
  Library library_;
  void* workspace_;
  std::map<Key, Plan> plans_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LtMatMul>> LtMatMul::Create() {
  Library library;
  if (absl::Status s = Check(cublasLtCreate(library.out()), "cublasLtCreate"); !s.ok()) return s;
  void* workspace = nullptr;
  if (const cudaError_t error = cudaMalloc(&workspace, kWorkspaceBytes); error != cudaSuccess) {
    return absl::InternalError(
        absl::StrCat("cudaMalloc of ", kWorkspaceBytes, " bytes for cuBLASLt: ", cudaGetErrorString(error)));
  }
  return std::make_unique<LtMatMulImpl>(std::move(library), workspace);
}

}  // namespace rondo::cuda
