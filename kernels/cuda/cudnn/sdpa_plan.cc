#include "kernels/cuda/cudnn/sdpa_plan.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

// cuDNN would have us describe devices instead of naming handles. For a device at hand a handle is the road that every
// version 9 and every framework takes.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace rondo::cuda {
namespace {

// What plan building keeps while it lasts.
struct PlanBuild {
  CudnnBuild& build;
  const SdpaTarget& target;
  std::unique_ptr<Descriptor> device;  // null with a handle

  // Tells `descriptor` where it is to run, by the attribute that suits.
  void Aim(Descriptor& descriptor, cudnnBackendAttributeName_t by_handle, cudnnBackendAttributeName_t by_device) const {
    if (target.handle != nullptr) {
      descriptor.Set(by_handle, CUDNN_TYPE_HANDLE, target.handle);
    } else {
      descriptor.Set(by_device, *device);
    }
  }
};

// cuDNN's proposals, best first.
std::vector<Descriptor> EngineConfigs(PlanBuild& p, const Descriptor& graph) {
  Descriptor heuristics(p.build, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "engine heuristics");
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  if (p.device != nullptr) heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *p.device);
  heuristics.Finalize();

  std::vector<Descriptor> configs;
  if (!p.build.ok()) return configs;
  const auto read = [&](int64_t room, int64_t* count, cudnnBackendDescriptor_t* into) {
    p.build.Check(p.build.api().get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, room, count, into),
                  "results of the engine heuristics");
  };
  int64_t count = 0;
  read(0, &count, nullptr);
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count && p.build.ok(); ++i) {
    configs.emplace_back(p.build, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "engine configuration");
    raw.push_back(configs.back().get());
  }
  int64_t filled = 0;
  if (p.build.ok() && count > 0) read(count, &filled, raw.data());
  while (static_cast<int64_t>(configs.size()) > filled) configs.pop_back();
  return configs;
}

}  // namespace

absl::StatusOr<SdpaPlan> BuildPlan(const CudnnApi& api, const SdpaTarget& target, const SdpaGraph& graph) {
  CudnnBuild build(api);
  PlanBuild p{build, target, nullptr};
  if (target.handle == nullptr) {
    const std::string& json = target.device_properties;
    p.device = std::make_unique<Descriptor>(build, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "device properties");
    p.device
        ->Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(json.size()),
              json.data())
        .Finalize();
  }
  Descriptor operations(build, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "operation graph");
  operations.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                 static_cast<int64_t>(graph.operations.size()), graph.operations.data());
  if (target.handle != nullptr) operations.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  operations.Finalize();

  const std::vector<Descriptor> configs = EngineConfigs(p, operations);
  if (!build.ok()) return build.status();
  absl::Status last = absl::UnimplementedError("cuDNN: no engine for this graph on this device");
  for (const Descriptor& config : configs) {
    CudnnBuild attempt(api);
    auto plan = std::make_unique<Descriptor>(attempt, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "execution plan");
    plan->Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    p.Aim(*plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
    plan->Finalize();
    int64_t workspace = 0, count = 0;
    if (attempt.ok()) {
      attempt.Check(api.get_attribute(plan->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                      &count, &workspace),
                    "workspace of the execution plan");
    }
    if (attempt.ok()) return SdpaPlan{std::move(plan), static_cast<size_t>(workspace)};
    last = absl::Status(attempt.status().code(),
                        absl::StrCat(attempt.status().message(), " (the last of ", configs.size(), " engines tried)"));
  }
  return last;
}

}  // namespace rondo::cuda
