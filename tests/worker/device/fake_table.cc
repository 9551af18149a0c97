#include "tests/worker/device/fake_table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace rondo::testing {
namespace {

int stream_object = 0;
int lt_object = 0;

int Result(const char* call) { return Fake().fail == call ? 2 : 0; }

// Of a launch: null, or words.
const char* Launched(const char* kernel, void* stream) {
  ++Fake().calls[kernel];
  Fake().stream = stream;
  return Fake().fail == kernel ? "CUDA: an illegal address" : nullptr;
}

int Allocate(const char* call, void** memory, uint64_t bytes) {
  if (Result(call) != 0) return Result(call);
  ++Fake().allocated;
  *memory = std::malloc(bytes);
  return 0;
}
int Free(void* memory) {
  --Fake().allocated;
  std::free(memory);
  return 0;
}

rondo_cuda_module_v1 MakeTable() {
  rondo_cuda_module_v1 t = {};
  t.version = kRondoCudaModuleVersion;
  t.size = sizeof(t);
  t.leaf_level = 4;
  t.drawn_leaf_level = 2;
  t.error_text = [](int) { return "out of memory"; };
  t.set_device = [](int) { return Result("set_device"); };
  t.device_facts = [](int, rondo_cuda_device_v1* facts) {
    std::strcpy(facts->name, "a card");
    facts->capability = 90;
    facts->multiprocessors = 132;
    return 0;
  };
  t.memory_info = [](uint64_t* free, uint64_t* total) {
    *free = Fake().free_bytes;
    *total = 2000;
    return 0;
  };
  t.stream_create = [](void** stream, int urgent) {
    EXPECT_EQ(urgent, 0);
    *stream = &stream_object;
    return 0;
  };
  t.stream_destroy = [](void*) { return 0; };
  t.stream_synchronize = [](void*) {
    ++Fake().waits;
    return Result("synchronize");
  };
  t.memory_alloc = [](void** memory, uint64_t bytes) {
    if (bytes > Fake().room) return 2;
    const int error = Allocate("alloc", memory, bytes);
    if (error != 0) return error;
    Fake().room -= bytes;
    Fake().memory[*memory] = bytes;
    return 0;
  };
  t.memory_free = [](void* memory) {
    Fake().room += Fake().memory.at(memory);
    Fake().memory.erase(memory);
    return Free(memory);
  };
  t.pinned_alloc = [](void** memory, uint64_t bytes) {
    const int error = Allocate("pinned", memory, bytes);
    Fake().pinned += error == 0;
    return error;
  };
  t.pinned_free = [](void* memory) {
    --Fake().pinned;
    return Free(memory);
  };
  t.copy_async = [](void* to, const void* from, uint64_t bytes, void*) {
    ++Fake().copies;
    std::memcpy(to, from, bytes);
    return Result("copy");
  };
  t.attend_check = [](int32_t capability, int32_t head_dim) {
    if (Fake().refused_head_dims.count(head_dim) > 0) return "no room for it";
    return Fake().refuses_maps && capability == 90 ? "the driver refuses" : static_cast<const char*>(nullptr);
  };
  t.attend_plan = [](int32_t capability, int32_t multiprocessors, int32_t, int64_t rows, int32_t, int64_t,
                     rondo_cuda_attend_plan_v1* plan) {
    plan->kernel = capability;
    plan->ctas = multiprocessors;
    plan->scratch_bytes = rows * 1024;
  };
  t.attend = [](int32_t, const cuda::AttentionArgs* args, const rondo_cuda_attend_plan_v1* plan, void* stream) {
    Fake().ctas = plan->ctas;
    Fake().kernel = plan->kernel;
    return Fake().memory[args->scratch] >= static_cast<uint64_t>(plan->scratch_bytes) ? Launched("attend", stream)
                                                                                      : "too little scratch";
  };
  t.decode = [](int32_t, const cuda::DecodeArgs*, int64_t, void* stream) { return Launched("decode", stream); };
  t.dense.rms_norm = [](const cuda::RmsNormArgs*, void* stream) { return Launched("rms_norm", stream); };
  t.dense.rope = [](const cuda::RopeArgs*, RopePairing, void* stream) { return Launched("rope", stream); };
  t.dense.gated_activation = [](const cuda::GatedActivationArgs*, GateKind, void* stream) {
    return Launched("gated_activation", stream);
  };
  t.dense.move_rows = [](const cuda::MoveRowsArgs*, void* stream) { return Launched("move_rows", stream); };
  t.dense.dequantise = [](const cuda::DequantiseArgs*, WeightType, cuda::RowType, void* stream) {
    return Launched("dequantise", stream);
  };
  t.dense.pack_weight = [](const cuda::PackArgs*, WeightType, void* stream) { return Launched("pack_weight", stream); };
  t.dense.matmul_few_rows = [](const cuda::MatMulFewRowsArgs*, WeightType, void* stream) {
    return Launched("matmul_few_rows", stream);
  };
  t.dense.lt_version = [] { return uint64_t{130102}; };
  t.dense.lt_create = [](void** lt) {
    if (Fake().fail == "lt_create") return "cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED";
    ++Fake().allocated;
    *lt = &lt_object;
    return static_cast<const char*>(nullptr);
  };
  t.dense.lt_destroy = [](void* lt) { Fake().allocated -= lt == &lt_object; };
  t.dense.lt_prepare = [](void*, int64_t, int64_t) {
    return Fake().fail == "lt_prepare" ? "cuBLASLt has no algorithm" : nullptr;
  };
  t.dense.lt_matmul = [](void* lt, const cuda::LtMatMulArgs*, void* stream) {
    return lt == &lt_object ? Launched("lt_matmul", stream) : "another handle";
  };
  return t;
}

}  // namespace

FakeTable& Fake() {
  static FakeTable fake;
  return fake;
}

const rondo_cuda_module_v1* FakeModule() {
  static const rondo_cuda_module_v1 table = MakeTable();
  return &table;
}

}  // namespace rondo::testing
