/* libcudart.so.12: GPUs whose memory is the host's. Kernels do nothing, since `on_host.py` computes what they would, and
   take virtual time: a GPU is busy until `busy_until_s`, and whatever waits for it really waits. As a real one it
   refuses to work in a process that was forked after it started, and to be waited for while a graph is captured. */
#define _GNU_SOURCE
#include "gpus.h"
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#undef cudaGetDeviceProperties

#define KERNEL_S 3e-6
#define MAX_BLOCKS 100000
#define DONE(declaration) cudaError_t declaration { return cudaSuccess; }

enum kind { FREE, ON_DEVICE, PINNED };
struct block { char *start; size_t bytes; enum kind kind; int device; };
struct event { double at_s; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu visible[MAX_GPUS + 1];
static int num_visible = -1, num_blocks;
static pid_t owner; /* the process that started CUDA */
static struct block blocks[MAX_BLOCKS];
static size_t used[MAX_GPUS + 1];
static double busy_until_s[MAX_GPUS + 1];
static __thread int current;
static __thread cudaError_t last_error;
static cudaStream_t capturing; /* the stream that is captured */
static unsigned long long num_captures;

static cudaError_t failed(cudaError_t error) { return last_error = error; }

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static void wait_until(double moment_s)
{
    for (double left_s; (left_s = moment_s - now_s()) > 0;)
        usleep(left_s * 1e6 + 1);
}

/* As the CUDA C++ Programming Guide describes CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES. */
static void find_visible(void)
{
    struct gpu all[MAX_GPUS];
    int num = list_gpus(all);
    const char *order = getenv("CUDA_DEVICE_ORDER"), *wanted = getenv("CUDA_VISIBLE_DEVICES");
    if (!order || strcmp(order, "PCI_BUS_ID"))
        for (int first = 0; first < num; first++)
            for (int next = num - 1; next > first; next--)
                if (all[next].major * 10 + all[next].minor > all[next - 1].major * 10 + all[next - 1].minor) {
                    struct gpu slower = all[next - 1];
                    all[next - 1] = all[next];
                    all[next] = slower;
                }
    num_visible = 0;
    if (!wanted) {
        memcpy(visible, all, sizeof all);
        num_visible = num;
        return;
    }
    char text[1024], *rest = NULL;
    snprintf(text, sizeof text, "%s", wanted);
    for (char *word = strtok_r(text, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest)) {
        int found = -1;
        for (int index = 0; index < num; index++)
            if (!strncmp(word, "GPU-", 4) ? !strncmp(all[index].uuid, word, strlen(word)) : index == atoi(word))
                found = index;
        if (found < 0)
            return;
        visible[num_visible++] = all[found];
    }
}

static cudaError_t start(void)
{
    if (num_visible < 0)
        find_visible();
    if (!owner)
        owner = getpid();
    return owner == getpid() ? cudaSuccess : failed(cudaErrorInitializationError);
}
#define STARTED do { if (start() != cudaSuccess) return last_error; } while (0)

/* Of cupti.c. */
void simulated_kernel(double microseconds) __attribute__((weak));

/* For `on_host.py`: the current GPU is busy for some microseconds more. */
void simulated_busy(double microseconds)
{
    pthread_mutex_lock(&lock);
    double from_s = busy_until_s[current] > now_s() ? busy_until_s[current] : now_s();
    busy_until_s[current] = from_s + microseconds * 1e-6;
    pthread_mutex_unlock(&lock);
    if (microseconds > 0 && simulated_kernel)
        simulated_kernel(microseconds);
}

static cudaError_t wait_for(double moment_s)
{
    if (capturing)
        return failed(cudaErrorStreamCaptureUnsupported);
    wait_until(moment_s);
    return cudaSuccess;
}

/* Memory. */
static struct block *block_of(const void *address)
{
    for (struct block *each = blocks; each < blocks + num_blocks; each++)
        if (each->kind != FREE && (char *)address >= each->start && (char *)address < each->start + each->bytes)
            return each;
    return NULL;
}

static cudaError_t allocate(void **address, size_t bytes, enum kind kind)
{
    struct block *place = blocks;
    pthread_mutex_lock(&lock);
    while (place < blocks + num_blocks && place->kind != FREE)
        place++;
    if (place == blocks + num_blocks)
        num_blocks++;
    *address = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *place = (struct block){*address, bytes ? bytes : 1, kind, current};
    if (kind == ON_DEVICE)
        used[current] += bytes;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

static cudaError_t release(void *address)
{
    struct block *block = block_of(address);
    if (!block)
        return cudaSuccess;
    wait_until(busy_until_s[block->device]);
    pthread_mutex_lock(&lock);
    if (block->kind == ON_DEVICE)
        used[block->device] -= block->bytes;
    munmap(block->start, block->bytes);
    block->kind = FREE;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **address, size_t bytes)
{
    STARTED;
    if (used[current] + bytes > visible[current].bytes)
        return failed(cudaErrorMemoryAllocation);
    return allocate(address, bytes, ON_DEVICE);
}
cudaError_t cudaFree(void *address) { STARTED; return release(address); }
cudaError_t cudaHostAlloc(void **address, size_t bytes, unsigned flags) { STARTED; return allocate(address, bytes, PINNED); }
cudaError_t cudaFreeHost(void *address) { return release(address); }
cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    STARTED;
    *total = visible[current].bytes;
    *left = *total - used[current];
    return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *found, const void *address)
{
    STARTED;
    struct block *block = block_of(address);
    memset(found, 0, sizeof *found);
    found->type = cudaMemoryTypeUnregistered;
    if (block) {
        found->type = block->kind == PINNED ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
        found->device = block->device;
        found->devicePointer = (void *)address;
        found->hostPointer = block->kind == PINNED ? (void *)address : NULL;
    }
    return cudaSuccess;
}

/* A copy of pageable memory waits, as on a real GPU, until all that was launched is done; one of pinned memory does not. */
static cudaError_t copy(void *to, const void *from, size_t bytes, int is_async)
{
    STARTED;
    struct block *source = block_of(from), *target = block_of(to);
    int is_queued = source && target && is_async; /* none of both is pageable */
    if (!is_queued && wait_for(busy_until_s[current]))
        return last_error;
    memmove(to, from, bytes);
    simulated_busy(5 + bytes / (is_queued ? 50e3 : 8e3));
    return is_queued ? cudaSuccess : wait_for(busy_until_s[current]);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) { return copy(to, from, bytes, 0); }
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy(to, from, bytes, 1);
}
cudaError_t cudaMemcpyPeerAsync(void *to, int device, const void *from, int other, size_t bytes, cudaStream_t stream)
{
    return copy(to, from, bytes, 1);
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    STARTED;
    memset(to, value, bytes);
    simulated_busy(2);
    return cudaSuccess;
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }
DONE(cudaHostRegister(void *address, size_t bytes, unsigned flags))
DONE(cudaHostUnregister(void *address))

/* Devices. */
cudaError_t cudaGetDeviceCount(int *num)
{
    STARTED;
    *num = num_visible;
    return num_visible ? cudaSuccess : failed(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device)
{
    STARTED;
    if (device >= num_visible)
        return failed(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) { STARTED; *device = current; return cudaSuccess; }
cudaError_t cudaDeviceSynchronize(void) { STARTED; return wait_for(busy_until_s[current]); }
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    STARTED;
    *value = 0;
    if (attribute == cudaDevAttrComputeCapabilityMajor)
        *value = visible[device].major;
    if (attribute == cudaDevAttrComputeCapabilityMinor)
        *value = visible[device].minor;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *found, int device)
{
    STARTED;
    const struct gpu *gpu = &visible[device];
    memset(found, 0, sizeof *found);
    snprintf(found->name, sizeof found->name, "%s", gpu->name);
    found->totalGlobalMem = gpu->bytes;
    found->major = gpu->major;
    found->minor = gpu->minor;
    found->multiProcessorCount = 132;
    found->warpSize = 32;
    found->maxThreadsPerBlock = 1024;
    found->maxThreadsPerMultiProcessor = 2048;
    found->sharedMemPerBlock = 49152;
    found->sharedMemPerBlockOptin = found->sharedMemPerMultiprocessor = 232448;
    found->regsPerMultiprocessor = 65536;
    found->l2CacheSize = 60 << 20;
    for (int axis = 0; axis < 3; axis++) {
        found->maxGridSize[axis] = 65535;
        found->maxThreadsDim[axis] = 1024;
    }
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device)
{
    snprintf(text, size, "0000:%02x:00.0", visible[device].index + 1);
    return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int other) { *can = 0; return cudaSuccess; }
DONE(cudaDeviceEnablePeerAccess(int device, unsigned flags))
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *version) { *version = 13000; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { *version = 12080; return cudaSuccess; }

/* Streams, of which each GPU has one in truth, and events. */
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    STARTED;
    *stream = malloc(1);
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) { return cudaStreamCreate(stream); }
DONE(cudaStreamDestroy(cudaStream_t stream))
DONE(cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags))
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { STARTED; return wait_for(busy_until_s[current]); }
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return now_s() < busy_until_s[current] ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    STARTED;
    *event = calloc(1, sizeof(struct event));
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { free(event); return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    simulated_busy(0);
    ((struct event *)event)->at_s = busy_until_s[current];
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    return cudaEventRecord(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return now_s() < ((struct event *)event)->at_s ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return wait_for(((struct event *)event)->at_s); }
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t first, cudaEvent_t last)
{
    if (cudaEventQuery(first) || cudaEventQuery(last))
        return failed(cudaErrorNotReady);
    *milliseconds = (((struct event *)last)->at_s - ((struct event *)first)->at_s) * 1e3;
    return cudaSuccess;
}

/* Graphs, whose operators `on_host.py` keeps and runs again. */
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    capturing = stream;
    num_captures++;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    capturing = NULL;
    *graph = malloc(1);
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    *status = capturing && stream == capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                        cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *num)
{
    if (id)
        *id = num_captures;
    return cudaStreamIsCapturing(stream, status);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags)
{
    *made = malloc(1);
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags)
{
    return cudaGraphInstantiate(made, graph, flags);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *num) { *num = 1; return cudaSuccess; }
DONE(cudaGraphLaunch(cudaGraphExec_t made, cudaStream_t stream))
DONE(cudaGraphDestroy(cudaGraph_t graph))
DONE(cudaGraphExecDestroy(cudaGraphExec_t made))
DONE(cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode))

/* Errors. */
cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}
cudaError_t cudaPeekAtLastError(void) { return last_error; }
const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInitializationError: return "initialization error";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    default: return "simulated error";
    }
}
const char *cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

/* Kernels. */
static __thread struct { dim3 grid, block; size_t shared; cudaStream_t stream; } call;
void **__cudaRegisterFatBinary(void *binary) { static void *handle; return &handle; }
void __cudaRegisterFatBinaryEnd(void **handle) {}
void __cudaUnregisterFatBinary(void **handle) {}
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, uint3 *thread,
                            uint3 *block, dim3 *threads, dim3 *blocks_, int *size) {}
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size, int constant,
                       int global) {}
char __cudaInitModule(void **handle) { return 1; }
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream)
{
    call.grid = grid;
    call.block = block;
    call.shared = shared;
    call.stream = stream;
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    *grid = call.grid;
    *block = call.block;
    *shared = call.shared;
    *(cudaStream_t *)stream = call.stream;
    return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
    STARTED;
    simulated_busy(KERNEL_S * 1e6);
    return cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *configuration, const void *kernel, void **arguments)
{
    return cudaLaunchKernel(kernel, configuration->gridDim, configuration->blockDim, arguments, 0, NULL);
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *found, const void *kernel)
{
    memset(found, 0, sizeof *found);
    found->maxThreadsPerBlock = 1024;
    found->binaryVersion = found->ptxVersion = 90;
    return cudaSuccess;
}
DONE(cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value))
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *num, const void *kernel, int threads, size_t shared,
                                                                  unsigned flags)
{
    *num = 2;
    return cudaSuccess;
}

/* The driver's own functions. */
static int succeeds(void) { return 0; }
static int context_state(int device, unsigned *flags, int *is_active)
{
    *is_active = owner == getpid();
    return 0;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **found, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    *found = strstr(name, "PrimaryCtxGetState") ? (void *)context_state : (void *)succeeds;
    if (result)
        *result = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPoint(const char *name, void **found, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *result)
{
    return cudaGetDriverEntryPointByVersion(name, found, 0, flags, result);
}

/* cuDNN, whose handle PyTorch asks for although `on_host.py` computes in its place. A status of 0 is success. */
int cudnnCreate(void **handle) { *handle = malloc(1); return 0; }
int cudnnSetStream(void *handle, cudaStream_t stream) { return 0; }
