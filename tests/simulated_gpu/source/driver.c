/* libcuda.so.1: it is there, and PyTorch reaches nearly all of it through the runtime. */
#define SUCCEEDS(name) int name(void) { return 0; }
SUCCEEDS(cuInit)
SUCCEEDS(cuCtxSetCurrent)
SUCCEEDS(cuModuleLoadData)
SUCCEEDS(cuModuleGetFunction)
SUCCEEDS(cuLaunchKernel)
SUCCEEDS(cuGetErrorString)
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)1; return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active) { *is_active = device == 0; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; return 0; }
