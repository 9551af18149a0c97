#include "kernels/cuda/cudnn/sdpa.h"

#include <array>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cudnn/cudnn_api.h"
#include "kernels/cuda/cudnn/descriptor.h"
#include "kernels/cuda/cudnn/sdpa_graph.h"
#include "kernels/cuda/cudnn/sdpa_plan.h"

namespace rondo::cuda {
namespace {

constexpr int64_t kMostHeadDim = 256;

absl::Status Validate(const CudnnSdpaShape& s) {
  const auto bad = [](const char* field, auto value, auto limit) {
    return absl::InvalidArgumentError(absl::StrCat("cuDNN attention: ", field, " is ", value, ", ", limit));
  };
  if (s.q_heads < 1) return bad("q_heads", s.q_heads, "must be at least 1");
  if (s.kv_heads < 1) return bad("kv_heads", s.kv_heads, "must be at least 1");
  if (s.q_heads % s.kv_heads != 0) return bad("kv_heads", s.kv_heads, absl::StrCat("must divide q_heads ", s.q_heads));
  if (s.head_dim < 8 || s.head_dim > kMostHeadDim || s.head_dim % 8 != 0) {
    return bad("head_dim", s.head_dim, absl::StrCat("must be a multiple of 8 up to ", kMostHeadDim));
  }
  if (s.q_tokens < 1) return bad("q_tokens", s.q_tokens, "must be at least 1");
  if (s.kv_tokens < 1) return bad("kv_tokens", s.kv_tokens, "must be at least 1");
  if (s.causal && s.q_tokens > s.kv_tokens) {
    return bad("q_tokens", s.q_tokens, absl::StrCat("must not exceed kv_tokens ", s.kv_tokens, " with a causal mask"));
  }
  if (!(s.scale > 0)) return bad("scale", s.scale, "must be positive");
  return absl::OkStatus();
}

// A device's handle and the plan made for it; the plan goes first.
struct Handle {
  const CudnnApi* api = nullptr;
  cudnnHandle_t handle = nullptr;
  ~Handle() {
    if (handle != nullptr) (void)api->destroy(handle);
  }
};

}  // namespace

struct CudnnSdpa::Impl {
  const CudnnApi& api;
  CudnnSdpaShape shape;
  CudnnSdpaForm form = CudnnSdpaForm::kAny;
  Handle handle;
  SdpaPlan plan;

  absl::Status Build(const std::string& device_properties, CudnnSdpaForm as) {
    CudnnBuild build(api);
    const SdpaGraph graph =
        as == CudnnSdpaForm::kOperation ? OperationGraph(build, shape) : CompositeGraph(build, shape);
    if (!build.ok()) return build.status();
    absl::StatusOr<SdpaPlan> built = BuildPlan(api, {handle.handle, device_properties}, graph);
    if (!built.ok()) return built.status();
    plan = *std::move(built);
    form = as;
    return absl::OkStatus();
  }

  absl::Status Build(const std::string& device_properties) {
    if (form == CudnnSdpaForm::kOperation && shape.causal) {
      return absl::UnimplementedError("cuDNN: the attention operation has no causal form; ask for the graph");
    }
    if (form != CudnnSdpaForm::kAny) return Build(device_properties, form);
    if (!shape.causal && Build(device_properties, CudnnSdpaForm::kOperation).ok()) return absl::OkStatus();
    return Build(device_properties, CudnnSdpaForm::kGraph);
  }
};

CudnnSdpa::CudnnSdpa(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CudnnSdpa::~CudnnSdpa() = default;

absl::StatusOr<std::unique_ptr<CudnnSdpa>> CudnnSdpa::Create(const CudnnSdpaShape& shape, CudnnSdpaForm form) {
  if (const absl::Status valid = Validate(shape); !valid.ok()) return valid;
  const absl::StatusOr<const CudnnApi*> api = CudnnApi::Get();
  if (!api.ok()) return api.status();
  auto impl = std::unique_ptr<Impl>(new Impl{**api, shape, form, {}, {}});
  impl->handle.api = *api;
  const absl::Status created = (*api)->Check((*api)->create(&impl->handle.handle), "handle of the current device");
  if (!created.ok()) return created;
  if (const absl::Status built = impl->Build(""); !built.ok()) return built;
  return std::unique_ptr<CudnnSdpa>(new CudnnSdpa(std::move(impl)));
}

absl::StatusOr<std::unique_ptr<CudnnSdpa>> CudnnSdpa::CreateFor(const std::string& device_properties,
                                                                const CudnnSdpaShape& shape, CudnnSdpaForm form) {
  if (const absl::Status valid = Validate(shape); !valid.ok()) return valid;
  const absl::StatusOr<const CudnnApi*> api = CudnnApi::Get();
  if (!api.ok()) return api.status();
  auto impl = std::unique_ptr<Impl>(new Impl{**api, shape, form, {}, {}});
  if (const absl::Status built = impl->Build(device_properties); !built.ok()) return built;
  return std::unique_ptr<CudnnSdpa>(new CudnnSdpa(std::move(impl)));
}

size_t CudnnSdpa::workspace_bytes() const { return impl_->plan.workspace_bytes; }
CudnnSdpaForm CudnnSdpa::form() const { return impl_->form; }

absl::Status CudnnSdpa::Run(const CudnnSdpaTensors& t, void* stream) {
  const CudnnApi& api = impl_->api;
  if (impl_->handle.handle == nullptr) {
    return absl::FailedPreconditionError("cuDNN attention: this plan was made without a device and cannot run");
  }
  float scale = impl_->shape.scale;
  // Not -inf, which would make NaN of a tile that a row does not see at all.
  float masked = std::numeric_limits<float>::lowest();
  const std::array<int64_t, 7> ids = {kQ, kK, kV, kOut, kLse, kScale, kMasked};
  const std::array<void*, 7> data = {
      const_cast<void*>(t.q), const_cast<void*>(t.k), const_cast<void*>(t.v), t.out, t.lse, &scale, &masked};
  const int64_t count = impl_->shape.causal ? 7 : 6;  // the last one is known to the mask alone

  CudnnBuild build(api);
  build.Check(api.set_stream(impl_->handle.handle, static_cast<cudaStream_t>(stream)), "stream");
  Descriptor pack(build, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "tensors of a run");
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data())
      .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data.data())
      .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, t.workspace)
      .Finalize();
  if (build.ok()) build.Check(api.execute(impl_->handle.handle, impl_->plan.plan->get(), pack.get()), "execution");
  return build.status();
}

absl::StatusOr<int64_t> CudnnVersion() {
  const absl::StatusOr<const CudnnApi*> api = CudnnApi::Get();
  if (!api.ok()) return api.status();
  return static_cast<int64_t>((*api)->get_version());
}

}  // namespace rondo::cuda
