/* libcupti.so.12: what PyTorch's profiler (Kineto) asks for kernels, of which the runtime tells `simulated_kernel`. */
#include <cupti.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEPTH 256
#define SUCCEEDS(declaration) CUptiResult declaration { return CUPTI_SUCCESS; }

static CUpti_BuffersCallbackRequestFunc request_buffer;
static CUpti_BuffersCallbackCompleteFunc complete_buffer;
static CUpti_TimestampCallbackFunc now; /* in units of the profiler's own */
static uint8_t *buffer;
static size_t size, used;
static uint32_t num_kernels;
static int is_enabled;
static __thread uint64_t operators[DEPTH]; /* that run in this thread, the innermost last */
static __thread int depth;

static uint64_t nanoseconds(void)
{
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    return moment.tv_sec * 1000000000ull + moment.tv_nsec;
}

static void deliver(void)
{
    if (buffer)
        complete_buffer(NULL, 0, buffer, size, used);
    buffer = NULL;
}

static void append(const void *record, size_t bytes)
{
    size_t most = 0;
    if (buffer && used + bytes > size)
        deliver();
    if (!buffer) {
        request_buffer(&buffer, &size, &most);
        used = 0;
    }
    memcpy(buffer + used, record, bytes);
    used += bytes;
}

void simulated_kernel(double microseconds)
{
    static uint64_t first, first_ns;
    if (!is_enabled || !now)
        return;
    if (!first) {
        first = now();
        first_ns = nanoseconds();
        while (nanoseconds() < first_ns + 1000000)
            ;
    }
    double units_per_ns = (double)(now() - first) / (nanoseconds() - first_ns);
    CUpti_ActivityKernel9 kernel = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .name = "simulated kernel"};
    kernel.start = now();
    kernel.end = kernel.start + (uint64_t)(microseconds * 1e3 * units_per_ns);
    kernel.correlationId = ++num_kernels;
    if (depth) {
        CUpti_ActivityExternalCorrelation of = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};
        of.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
        of.externalId = operators[depth - 1];
        of.correlationId = num_kernels;
        append(&of, sizeof of); /* before the kernel, as Kineto needs it */
    }
    append(&kernel, sizeof kernel);
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete)
{
    request_buffer = request;
    complete_buffer = complete;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc callback)
{
    now = callback;
    return CUPTI_SUCCESS;
}
static CUptiResult enable(CUpti_ActivityKind kind, int value)
{
    if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
        is_enabled = value;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) { return enable(kind, 1); }
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) { return enable(kind, 0); }
CUptiResult cuptiActivityFlushAll(uint32_t flag) { deliver(); return CUPTI_SUCCESS; }
CUptiResult cuptiActivityGetNextRecord(uint8_t *start, size_t bytes, CUpti_Activity **record)
{
    uint8_t *next = start;
    if (*record) {
        int is_kernel = (*record)->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
        next = (uint8_t *)*record + (is_kernel ? sizeof(CUpti_ActivityKernel9) : sizeof(CUpti_ActivityExternalCorrelation));
    }
    if (next >= start + bytes)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
    if (kind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 && depth < DEPTH)
        operators[depth++] = id;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *id)
{
    if (kind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 && depth)
        depth--;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *num)
{
    *num = 0;
    return CUPTI_SUCCESS;
}
CUptiResult cuptiGetVersion(uint32_t *version) { *version = CUPTI_API_VERSION; return CUPTI_SUCCESS; }
SUCCEEDS(cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *bytes, void *value))
SUCCEEDS(cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t enable))
SUCCEEDS(cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t enable))
SUCCEEDS(cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *data))
SUCCEEDS(cuptiUnsubscribe(CUpti_SubscriberHandle handle))
SUCCEEDS(cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain, CUpti_CallbackId id))
SUCCEEDS(cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain))
SUCCEEDS(cuptiFinalize(void))
