#include "kernels/cuda/cudnn/sdpa_graph.h"

#include <utility>

namespace rondo::cuda {
namespace {

using Dims = std::vector<int64_t>;

// A tensor of the graph, by what cuDNN must know of it.
struct TensorSpec {
  int64_t id;
  Dims dims;  // batch, heads, tokens, head_dim
  Dims strides;
  cudnnDataType_t type;
  bool is_virtual = false;   // lives inside the fused kernel only
  bool is_by_value = false;  // a number in host memory
};

class Builder {
 public:
  Builder(CudnnBuild& build, const CudnnSdpaShape& shape) : build_(build), shape_(shape) {}
  SdpaGraph Take() { return {std::move(descriptors_), std::move(operations_)}; }

  // Index of a descriptor; those inside the vector move.
  using Ref = size_t;

  Ref Tensor(const TensorSpec& spec) {
    Descriptor tensor(build_, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor");
    tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, spec.type)
        .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, spec.dims)
        .Set(CUDNN_ATTR_TENSOR_STRIDES, spec.strides)
        .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, Dims{spec.id})
        .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Dims{16});
    if (spec.is_virtual) tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
    if (spec.is_by_value) tensor.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
    tensor.Finalize();
    return Keep(std::move(tensor));
  }

  // Memory is [tokens, heads, head_dim]; cuDNN's order of dimensions is batch, heads, tokens, head_dim.
  Ref Rows(SdpaTensor id, int64_t heads, int64_t tokens) {
    const int64_t d = shape_.head_dim;
    return Tensor({id, {1, heads, tokens, d}, {heads * tokens * d, d, heads * d, 1}, CUDNN_DATA_BFLOAT16});
  }
  // Keys as the right side of q k^T.
  Ref TransposedRows(SdpaTensor id, int64_t heads, int64_t tokens) {
    const int64_t d = shape_.head_dim;
    return Tensor({id, {1, heads, d, tokens}, {heads * tokens * d, d, 1, heads * d}, CUDNN_DATA_BFLOAT16});
  }
  Ref Lse() {
    const int64_t h = shape_.q_heads, t = shape_.q_tokens;
    return Tensor({kLse, {1, h, t, 1}, {h * t, t, 1, 1}, CUDNN_DATA_FLOAT});
  }
  Ref Number(SdpaTensor id) { return Tensor({id, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, false, true}); }
  // Of every score.
  Ref Scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    const int64_t h = shape_.q_heads, t = shape_.q_tokens, k = shape_.kv_tokens;
    return Tensor({next_virtual_++, {1, h, t, k}, {h * t * k, t * k, k, 1}, type, true});
  }
  // Of every row of scores.
  Ref RowValues() {
    const int64_t h = shape_.q_heads, t = shape_.q_tokens;
    return Tensor({next_virtual_++, {1, h, t, 1}, {h * t, t, 1, 1}, CUDNN_DATA_FLOAT, true});
  }

  void Matmul(Ref a, Ref b, Ref c) {
    Descriptor matmul(build_, CUDNN_BACKEND_MATMUL_DESCRIPTOR, "matmul");
    matmul.Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT).Finalize();
    Descriptor operation(build_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "matmul operation");
    operation.Set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, descriptors_[a])
        .Set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, descriptors_[b])
        .Set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, descriptors_[c])
        .Set(CUDNN_ATTR_OPERATION_MATMUL_DESC, matmul)
        .Finalize();
    Keep(std::move(matmul));
    KeepOperation(std::move(operation));
  }

  struct Pointwise {
    cudnnPointwiseMode_t mode;
    Ref x;
    Ref y;              // result
    Ref b = kNone;      // second operand
    Ref t = kNone;      // chooser of BINARY_SELECT
    int64_t axis = -1;  // of GEN_INDEX
    cudnnDataType_t math = CUDNN_DATA_FLOAT;
  };
  void Apply(const Pointwise& p) {
    Descriptor pointwise(build_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "pointwise");
    pointwise.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, p.mode)
        .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, p.math);
    if (p.axis >= 0) pointwise.Set(CUDNN_ATTR_POINTWISE_AXIS, Dims{p.axis});
    pointwise.Finalize();
    Descriptor operation(build_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "pointwise operation");
    operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise)
        .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, descriptors_[p.x])
        .Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, descriptors_[p.y]);
    if (p.b != kNone) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, descriptors_[p.b]);
    if (p.t != kNone) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, descriptors_[p.t]);
    operation.Finalize();
    Keep(std::move(pointwise));
    KeepOperation(std::move(operation));
  }

  void Reduce(cudnnReduceTensorOp_t how, Ref x, Ref y) {
    Descriptor reduction(build_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "reduction");
    reduction.Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
        .Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, how)
        .Finalize();
    Descriptor operation(build_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "reduction operation");
    operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, descriptors_[x])
        .Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, descriptors_[y])
        .Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction)
        .Finalize();
    Keep(std::move(reduction));
    KeepOperation(std::move(operation));
  }

  // Scores of keys after the query's own place give way to the lowest float.
  Ref MaskCausally(Ref scores) {
    const Ref row = Scores(CUDNN_DATA_INT32);
    Apply({.mode = CUDNN_POINTWISE_GEN_INDEX, .x = scores, .y = row, .axis = 2, .math = CUDNN_DATA_INT32});
    const Ref column = Scores(CUDNN_DATA_INT32);
    Apply({.mode = CUDNN_POINTWISE_GEN_INDEX, .x = scores, .y = column, .axis = 3, .math = CUDNN_DATA_INT32});
    const Ref visible = Scores(CUDNN_DATA_BOOLEAN);
    Apply({.mode = CUDNN_POINTWISE_CMP_GE, .x = row, .y = visible, .b = column, .math = CUDNN_DATA_BOOLEAN});
    const Ref masked = Scores();
    const Ref lowest = Number(kMasked);
    Apply({.mode = CUDNN_POINTWISE_BINARY_SELECT, .x = scores, .y = masked, .b = lowest, .t = visible});
    return masked;
  }

  Descriptor& operator[](Ref ref) { return descriptors_[ref]; }
  void KeepOperation(Descriptor operation) {
    operations_.push_back(operation.get());
    Keep(std::move(operation));
  }

 private:
  static constexpr Ref kNone = ~Ref{0};
  Ref Keep(Descriptor descriptor) {
    descriptors_.push_back(std::move(descriptor));
    return descriptors_.size() - 1;
  }

  CudnnBuild& build_;
  const CudnnSdpaShape& shape_;
  int64_t next_virtual_ = kFirstVirtual;
  std::vector<Descriptor> descriptors_;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

}  // namespace

SdpaGraph OperationGraph(CudnnBuild& build, const CudnnSdpaShape& shape) {
#if CUDNN_VERSION >= 91900
  Builder g(build, shape);
  const auto q = g.Rows(kQ, shape.q_heads, shape.q_tokens);
  const auto k = g.Rows(kK, shape.kv_heads, shape.kv_tokens);
  const auto v = g.Rows(kV, shape.kv_heads, shape.kv_tokens);
  const auto out = g.Rows(kOut, shape.q_heads, shape.q_tokens);
  const auto lse = g.Lse();
  const auto scale = g.Number(kScale);
  Descriptor operation(build, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, "attention operation");
  operation.Set(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, g[q])
      .Set(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, g[k])
      .Set(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, g[v])
      .Set(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, g[out])
      .Set(CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, g[lse])
      .Set(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, g[scale])
      .Finalize();
  g.KeepOperation(std::move(operation));
  return g.Take();
#else
  (void)shape;
  build.Check(CUDNN_STATUS_NOT_SUPPORTED, "attention operation (the headers are older than 9.19)");
  return {};
#endif
}

SdpaGraph CompositeGraph(CudnnBuild& build, const CudnnSdpaShape& shape) {
  Builder g(build, shape);
  const auto q = g.Rows(kQ, shape.q_heads, shape.q_tokens);
  const auto k = g.TransposedRows(kK, shape.kv_heads, shape.kv_tokens);
  const auto v = g.Rows(kV, shape.kv_heads, shape.kv_tokens);
  const auto out = g.Rows(kOut, shape.q_heads, shape.q_tokens);
  const auto lse = g.Lse();

  const auto products = g.Scores();
  g.Matmul(q, k, products);
  auto scores = g.Scores();
  const auto scale = g.Number(kScale);
  g.Apply({.mode = CUDNN_POINTWISE_MUL, .x = products, .y = scores, .b = scale});
  if (shape.causal) scores = g.MaskCausally(scores);

  const auto largest = g.RowValues();
  g.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  const auto below = g.Scores();
  g.Apply({.mode = CUDNN_POINTWISE_SUB, .x = scores, .y = below, .b = largest});
  const auto weights = g.Scores();
  g.Apply({.mode = CUDNN_POINTWISE_EXP, .x = below, .y = weights});
  const auto sum = g.RowValues();
  g.Reduce(CUDNN_REDUCE_TENSOR_ADD, weights, sum);
  const auto log_sum = g.RowValues();
  g.Apply({.mode = CUDNN_POINTWISE_LOG, .x = sum, .y = log_sum});
  g.Apply({.mode = CUDNN_POINTWISE_ADD, .x = largest, .y = lse, .b = log_sum});
  const auto probabilities = g.Scores(CUDNN_DATA_BFLOAT16);
  g.Apply({.mode = CUDNN_POINTWISE_DIV, .x = weights, .y = probabilities, .b = sum});
  g.Matmul(probabilities, v, out);
  return g.Take();
}

}  // namespace rondo::cuda
