// The GPU module's table: CUDA's runtime, and the kernels that are linked in.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>

#include "kernels/cuda/module.h"
#include "worker/device/cuda_module/dense.h"
#include "worker/device/cuda_module/kernels.h"

namespace {

const char* ErrorText(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

int DeviceFacts(int device, rondo_cuda_device_v1* facts) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess) return error;
  *facts = {};
  std::memcpy(facts->name, properties.name, strnlen(properties.name, sizeof(facts->name) - 1));
  std::memcpy(facts->uuid, &properties.uuid, sizeof(facts->uuid));
  facts->capability = 10 * properties.major + properties.minor;
  facts->multiprocessors = properties.multiProcessorCount;
  facts->memory_bytes = properties.totalGlobalMem;
  return cudaSuccess;
}

int MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) {
  size_t free = 0;
  size_t total = 0;
  const cudaError_t error = cudaMemGetInfo(&free, &total);
  *free_bytes = free;
  *total_bytes = total;
  return error;
}

int StreamCreate(void** stream, int urgent) {
  int least = 0;
  int greatest = 0;
  if (const cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest); error != cudaSuccess) return error;
  return cudaStreamCreateWithPriority(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking,
                                      urgent != 0 ? greatest : least);
}
int StreamDestroy(void* stream) { return cudaStreamDestroy(static_cast<cudaStream_t>(stream)); }
int StreamSynchronize(void* stream) { return cudaStreamSynchronize(static_cast<cudaStream_t>(stream)); }
int StreamWaitEvent(void* stream, void* event) {
  return cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event), 0);
}

// An error that the caller answers; left as the last one it would be taken for the next launch's.
int Answer(cudaError_t error) {
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

int EventCreate(void** event, int interprocess) {
  const unsigned flags = cudaEventDisableTiming | (interprocess != 0 ? cudaEventInterprocess : 0);
  return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), flags);
}
int EventDestroy(void* event) { return cudaEventDestroy(static_cast<cudaEvent_t>(event)); }
int EventRecord(void* event, void* stream) {
  return cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream));
}
int EventQuery(void* event, int* reached) {
  const int error = Answer(cudaEventQuery(static_cast<cudaEvent_t>(event)));
  *reached = error == cudaSuccess;
  return error == cudaErrorNotReady ? int{cudaSuccess} : error;
}

int MemoryAlloc(void** memory, uint64_t bytes) { return Answer(cudaMalloc(memory, bytes)); }
int MemoryFree(void* memory) { return cudaFree(memory); }
int PinnedAlloc(void** memory, uint64_t bytes) { return Answer(cudaMallocHost(memory, bytes)); }
int PinnedFree(void* memory) { return cudaFreeHost(memory); }

int MemoryIsDevice(const void* memory, int* is_device) {
  cudaPointerAttributes attributes;
  const cudaError_t error = cudaPointerGetAttributes(&attributes, memory);
  // Managed memory would move at every touch; it is treated as the host's.
  *is_device = error == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
  return error;
}

int CopyAsync(void* to, const void* from, uint64_t bytes, void* stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream));
}

// The driver's own call, found through the runtime so that the module does not link libcuda.
using AddressRange = CUresult (*)(CUdeviceptr* base, size_t* bytes, CUdeviceptr memory);

int FindAddressRange(AddressRange* call) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &function, 12000, cudaEnableDefault, &result);
  if (error != cudaSuccess) return error;
  if (result != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  *call = reinterpret_cast<AddressRange>(function);
  return cudaSuccess;
}

int MemoryAllocation(const void* memory, void** base, uint64_t* bytes) {
  AddressRange range = nullptr;
  if (const int error = FindAddressRange(&range); error != cudaSuccess) return error;
  CUdeviceptr begin = 0;
  size_t size = 0;
  if (range(&begin, &size, reinterpret_cast<CUdeviceptr>(memory)) != CUDA_SUCCESS) return cudaErrorInvalidValue;
  *base = reinterpret_cast<void*>(begin);
  *bytes = size;
  return cudaSuccess;
}

// A handle is of a whole allocation, so the piece is told by its offset.
int IpcShareMemory(const void* memory, uint8_t handle[64], uint64_t* offset) {
  void* base = nullptr;
  uint64_t bytes = 0;
  if (const int error = MemoryAllocation(memory, &base, &bytes); error != cudaSuccess) return error;
  *offset = static_cast<uint64_t>(static_cast<const char*>(memory) - static_cast<char*>(base));
  return cudaIpcGetMemHandle(reinterpret_cast<cudaIpcMemHandle_t*>(handle), base);
}
static_assert(sizeof(cudaIpcMemHandle_t) == 64 && sizeof(cudaIpcEventHandle_t) == 64);

int IpcOpenMemory(const uint8_t handle[64], void** base) {
  cudaIpcMemHandle_t raw;
  std::memcpy(&raw, handle, sizeof(raw));
  return cudaIpcOpenMemHandle(base, raw, cudaIpcMemLazyEnablePeerAccess);
}
int IpcCloseMemory(void* base) { return cudaIpcCloseMemHandle(base); }
int IpcShareEvent(void* event, uint8_t handle[64]) {
  return cudaIpcGetEventHandle(reinterpret_cast<cudaIpcEventHandle_t*>(handle), static_cast<cudaEvent_t>(event));
}
int IpcOpenEvent(const uint8_t handle[64], void** event) {
  cudaIpcEventHandle_t raw;
  std::memcpy(&raw, handle, sizeof(raw));
  return cudaIpcOpenEventHandle(reinterpret_cast<cudaEvent_t*>(event), raw);
}

int DriverVersion(int* version) { return cudaDriverGetVersion(version); }
int DeviceCount(int* count) { return cudaGetDeviceCount(count); }
int SetDevice(int device) { return cudaSetDevice(device); }

using namespace rondo::cuda_module;

constexpr rondo_cuda_module_v1 kTable = {
    .version = kRondoCudaModuleVersion,
    .size = sizeof(rondo_cuda_module_v1),
    .cuda_version = CUDART_VERSION,
    .leaf_level = kLeafLevel,
    .drawn_leaf_level = kDrawnLeafLevel,
    .targets = kTargets,
    .error_text = ErrorText,
    .driver_version = DriverVersion,
    .device_count = DeviceCount,
    .device_facts = DeviceFacts,
    .set_device = SetDevice,
    .memory_info = MemoryInfo,
    .stream_create = StreamCreate,
    .stream_destroy = StreamDestroy,
    .stream_synchronize = StreamSynchronize,
    .stream_wait_event = StreamWaitEvent,
    .event_create = EventCreate,
    .event_destroy = EventDestroy,
    .event_record = EventRecord,
    .event_query = EventQuery,
    .memory_alloc = MemoryAlloc,
    .memory_free = MemoryFree,
    .pinned_alloc = PinnedAlloc,
    .pinned_free = PinnedFree,
    .memory_is_device = MemoryIsDevice,
    .copy_async = CopyAsync,
    .ipc_share_memory = IpcShareMemory,
    .ipc_open_memory = IpcOpenMemory,
    .ipc_close_memory = IpcCloseMemory,
    .ipc_share_event = IpcShareEvent,
    .ipc_open_event = IpcOpenEvent,
    .attend_check = kAttendCheck,
    .attend_plan = kAttendPlan,
    .attend = kAttend,
    .merge = kMerge,
    .finish = kFinish,
    .decode = kDecode,
    .memory_allocation = MemoryAllocation,
    .dense = kDense,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const rondo_cuda_module_v1* rondo_cuda_module_v1_table(void) {
  return &kTable;
}
