// The border of the GPU module librondo_cuda.so: one table of functions over plain structs, so that a program built
// without CUDA can open a module built with it. Written by the module, read by worker/device.
//
// Every function returns 0 or a CUDA error code, whose words error_text gives. Any thread; calls act on the device that
// the calling thread set last. Streams and events are cudaStream_t and cudaEvent_t. The table only grows at its end
// within a version; what changes meaning gets a new version and a new symbol. The structs of args.h and decode_args.h
// belong to it.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/args.h"
#include "kernels/cuda/attention/decode_args.h"
#include "kernels/cuda/dense/args.h"

extern "C" {

enum { kRondoCudaModuleVersion = 1 };
#define RONDO_CUDA_MODULE_SYMBOL "rondo_cuda_module_v1_table"

struct rondo_cuda_device_v1 {
  char name[256];
  uint8_t uuid[16];
  int32_t capability;  // 90 for 9.0
  int32_t multiprocessors;
  uint64_t memory_bytes;
};

// How a call of `attend` is to be made.
struct rondo_cuda_attend_plan_v1 {
  int32_t kernel;  // rondo::cuda::AttendKernel
  int32_t ctas;
  int64_t scratch_bytes;
};

// The kernels of kernels/cuda/dense/launch.h over float32 rows, and its LtMatMul of bf16 with float32 results, launched
// on the stream; all null in a module without. Each returns null, or words that stay until the thread's next call.
struct rondo_cuda_dense_v1 {
  const char* (*rms_norm)(const rondo::cuda::RmsNormArgs* args, void* stream);
  const char* (*rope)(const rondo::cuda::RopeArgs* args, rondo::RopePairing pairing, void* stream);
  const char* (*gated_activation)(const rondo::cuda::GatedActivationArgs* args, rondo::GateKind kind, void* stream);
  const char* (*move_rows)(const rondo::cuda::MoveRowsArgs* args, void* stream);
  const char* (*dequantise)(const rondo::cuda::DequantiseArgs* args, rondo::WeightType type, rondo::cuda::RowType out,
                            void* stream);
  const char* (*pack_weight)(const rondo::cuda::PackArgs* args, rondo::WeightType type, void* stream);
  const char* (*matmul_few_rows)(const rondo::cuda::MatMulFewRowsArgs* args, rondo::WeightType type, void* stream);

  uint64_t (*lt_version)(void);         // of the cuBLASLt that was loaded: 130100 for 13.1.0
  const char* (*lt_create)(void** lt);  // on the thread's device
  void (*lt_destroy)(void* lt);
  const char* (*lt_prepare)(void* lt, int64_t n, int64_t k);
  const char* (*lt_matmul)(void* lt, const rondo::cuda::LtMatMulArgs* args, void* stream);
};

struct rondo_cuda_module_v1 {
  uint32_t version;          // kRondoCudaModuleVersion
  uint32_t size;             // sizeof(rondo_cuda_module_v1) of the module
  int32_t cuda_version;      // that it was built with: 13000
  int32_t leaf_level;        // of attend's tree: leaves of 2^leaf_level canonical blocks
  int32_t drawn_leaf_level;  // and of decode's
  const char* targets;       // "sm_80 sm_90a sm_100 compute_80"; empty: it holds no kernels

  const char* (*error_text)(int error);
  int (*driver_version)(int* version);  // 0: there is no driver
  int (*device_count)(int* count);
  int (*device_facts)(int device, struct rondo_cuda_device_v1* facts);
  int (*set_device)(int device);
  int (*memory_info)(uint64_t* free_bytes, uint64_t* total_bytes);

  int (*stream_create)(void** stream,
                       int urgent);  // of the highest priority or the lowest, not tied to the default one
  int (*stream_destroy)(void* stream);
  int (*stream_synchronize)(void* stream);
  int (*stream_wait_event)(void* stream, void* event);
  int (*event_create)(void** event, int interprocess);
  int (*event_destroy)(void* event);
  int (*event_record)(void* event, void* stream);
  int (*event_query)(void* event, int* reached);

  int (*memory_alloc)(void** memory, uint64_t bytes);
  int (*memory_free)(void* memory);
  int (*pinned_alloc)(void** memory, uint64_t bytes);
  int (*pinned_free)(void* memory);
  int (*memory_is_device)(const void* memory, int* is_device);
  int (*copy_async)(void* to, const void* from, uint64_t bytes, void* stream);  // any direction

  int (*ipc_share_memory)(const void* memory, uint8_t handle[64], uint64_t* offset);
  int (*ipc_open_memory)(const uint8_t handle[64], void** base);
  int (*ipc_close_memory)(void* base);
  int (*ipc_share_event)(void* event, uint8_t handle[64]);
  int (*ipc_open_event)(const uint8_t handle[64], void** event);

  // The kernels of kernels/cuda/attention/attention.h over bf16, launched on the stream; null in a module without. Each
  // returns null, or words that stay until the thread's next call. `attend_plan` says with which kernel, how many CTAs
  // and how much scratch a call is to be made on a GPU of this capability (90 for 9.0) and so many multiprocessors.
  // `attend_check`: whether the current device, of that capability, can run those of a head size.
  const char* (*attend_check)(int32_t capability, int32_t head_dim);
  void (*attend_plan)(int32_t capability, int32_t multiprocessors, int32_t head_dim, int64_t rows, int32_t q_heads,
                      int64_t key_tokens, struct rondo_cuda_attend_plan_v1* plan);
  const char* (*attend)(int32_t head_dim, const rondo::cuda::AttentionArgs* args,
                        const struct rondo_cuda_attend_plan_v1* plan, void* stream);
  const char* (*merge)(int32_t head_dim, const rondo::cuda::NodeArgs* left, const rondo::cuda::NodeArgs* right,
                       int64_t rows, int32_t heads, void* stream);
  const char* (*finish)(int32_t head_dim, const rondo::cuda::NodeArgs* root, const rondo::cuda::OutputArgs* output,
                        int64_t rows, int32_t heads, void* stream);
  const char* (*decode)(int32_t head_dim, const rondo::cuda::DecodeArgs* args, int64_t items, void* stream);
  // What device memory was allocated with the piece at `memory`.
  int (*memory_allocation)(const void* memory, void** base, uint64_t* bytes);
  struct rondo_cuda_dense_v1 dense;
};

// What RONDO_CUDA_MODULE_SYMBOL names. The table lives as long as the module.
typedef const struct rondo_cuda_module_v1* (*rondo_cuda_module_v1_function)(void);
}
