/* A libcuda that has every function cuDNN looks up while it builds a plan and does nothing: plans can then be built on
 * a machine without a GPU. Loaded by plan_test before cuDNN, under the driver's own name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

typedef int Result;
enum { kSuccess = 0, kNoDevice = 100, kNotFound = 500 };

/* Functions that hand out something hand out these; nobody looks behind them. */
static char library, kernel, module;

Result cuInit(unsigned flags) { return (void)flags, kNoDevice; }
Result cuDriverGetVersion(int* version) { return *version = 13000, kSuccess; }
Result cuGetErrorString(Result result, const char** text) { return (void)result, *text = "stub", kSuccess; }
Result cuGetErrorName(Result result, const char** text) { return (void)result, *text = "STUB", kSuccess; }

Result cuLibraryLoadData(void** out) { return *out = &library, kSuccess; }
Result cuLibraryLoadFromFile(void** out) { return *out = &library, kSuccess; }
Result cuLibraryGetKernel(void** out) { return *out = &kernel, kSuccess; }
Result cuKernelGetFunction(void** out) { return *out = &kernel, kSuccess; }
Result cuModuleLoadData(void** out) { return *out = &module, kSuccess; }
Result cuModuleGetFunction(void** out) { return *out = &kernel, kSuccess; }
Result cuFuncGetAttribute(int* value) { return *value = 0, kSuccess; }
Result cuKernelGetAttribute(int* value) { return *value = 0, kSuccess; }
Result cuDeviceGetCount(int* count) { return *count = 0, kSuccess; }
Result cuCtxGetCurrent(void** context) { return *context = NULL, kSuccess; }

/* Called with arguments that do not matter, or not at all: only their addresses are asked for. */
#define STUB(name) \
  Result name(void) { return kSuccess; }
STUB(cuCtxGetLimit)
STUB(cuCtxPopCurrent)
STUB(cuCtxPushCurrent)
STUB(cuDeviceGet)
STUB(cuFuncSetAttribute)
STUB(cuKernelSetAttribute)
STUB(cuLaunchCooperativeKernel)
STUB(cuLaunchKernel)
STUB(cuLaunchKernelEx)
STUB(cuLibraryUnload)
STUB(cuLinkAddData)
STUB(cuLinkComplete)
STUB(cuLinkCreate)
STUB(cuLinkDestroy)
STUB(cuModuleUnload)
STUB(cuOccupancyMaxPotentialClusterSize)
STUB(cuStreamGetCtx)

Result cuGetProcAddress_v2(const char* name, void** function) {
  *function = dlsym(RTLD_DEFAULT, name);
  return *function != NULL ? kSuccess : kNotFound;
}
Result cuGetProcAddress(const char* name, void** function) { return cuGetProcAddress_v2(name, function); }
