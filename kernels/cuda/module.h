// The border of the GPU module librondo_cuda.so: one table of functions over plain structs, so that a program built
// without CUDA can open a module built with it. Written by the module, read by worker/device.
//
// Every function returns 0 or a CUDA error code, whose words error_text gives. Any thread; calls act on the device that
// the calling thread set last. Streams and events are cudaStream_t and cudaEvent_t. The table only grows at its end
// within a version; what changes meaning gets a new version and a new symbol.
#pragma once

#include <cstdint>

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

// One attention call; tensors lie in device memory, the arrays that describe them in host memory. Shapes and meanings
// are those of rondo/attention_kernels.h.
struct rondo_cuda_block_v1 {
  const void* data;  // K then V, each [kv_heads, block_tokens, head_dim]
  int64_t index;
  int32_t tokens;
  int32_t reserved;
};

struct rondo_cuda_node_v1 {
  int64_t index;
  int32_t level;
  int32_t reserved;
  float* o;  // [rows, q_heads, head_dim]
  float* m;  // [rows, q_heads]
  float* l;  // [rows, q_heads]
};

struct rondo_cuda_attention_v1 {
  uint32_t size;    // sizeof(rondo_cuda_attention_v1) of the caller
  int32_t element;  // of q, K and V: 0 bf16, 1 fp16
  int32_t q_heads;
  int32_t kv_heads;
  int32_t head_dim;
  float scale;
  float softcap;  // 0: none
  int32_t causal;
  int64_t window;                  // 0: none
  const float* alibi_slopes;       // device, [q_heads] or null
  const float* sinks;              // device, [q_heads] or null; finish alone reads them
  const int64_t* sequence_starts;  // host, or null: one sequence
  int64_t sequence_start_count;

  const void* q;  // device, [rows, q_heads, head_dim]
  int64_t rows;
  int64_t first_position;
};

struct rondo_cuda_module_v1 {
  uint32_t version;      // kRondoCudaModuleVersion
  uint32_t size;         // sizeof(rondo_cuda_module_v1) of the module
  int32_t cuda_version;  // that it was built with: 13000
  int32_t leaf_level;    // of its kernels' tree: leaves of 2^leaf_level canonical blocks
  const char* targets;   // "sm_80 sm_90a sm_100 compute_80"; empty: it holds no kernels

  const char* (*error_text)(int error);
  int (*driver_version)(int* version);  // 0: there is no driver
  int (*device_count)(int* count);
  int (*device_facts)(int device, struct rondo_cuda_device_v1* facts);
  int (*set_device)(int device);
  int (*memory_info)(uint64_t* free_bytes, uint64_t* total_bytes);

  int (*stream_create)(void** stream);  // of the highest priority, not tied to the default stream
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

  // Attention, on the stream; null in a module without kernels. As AttentionKernels: attend computes the nodes of a run
  // of blocks, merge joins two nodes into the left one, finish writes out [rows, q_heads, head_dim] and, unless null,
  // lse [rows, q_heads].
  int (*attend)(const struct rondo_cuda_attention_v1* call, const struct rondo_cuda_block_v1* blocks,
                int64_t block_count, const struct rondo_cuda_node_v1* nodes, int64_t node_count, void* stream);
  int (*merge)(const struct rondo_cuda_attention_v1* call, const struct rondo_cuda_node_v1* left,
               const struct rondo_cuda_node_v1* right, void* stream);
  int (*finish)(const struct rondo_cuda_attention_v1* call, const struct rondo_cuda_node_v1* node, float* out,
                float* lse, void* stream);
};

// What RONDO_CUDA_MODULE_SYMBOL names. The table lives as long as the module.
typedef const struct rondo_cuda_module_v1* (*rondo_cuda_module_v1_function)(void);
}
