/* libnvidia-ml.so.1: what accelbench asks NVML for. A handle is the index + 1 of a GPU. */
#include "gpus.h"
#include <time.h>

#define NOT_FOUND 6
#define NOT_SUPPORTED 3
#define TOO_SMALL 7
#define WATTS 350.0

typedef void *handle;
struct memory { unsigned long long total, free, used; };
struct process { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; };

static struct gpu gpu_of(handle given)
{
    struct gpu all[MAX_GPUS];
    int index = (int)(long)given - 1;
    list_gpus(all);
    return all[index];
}
static int number(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : otherwise;
}

int nvmlInit_v2(void) { return getenv("SIMULATED_GPUS") && !*getenv("SIMULATED_GPUS") ? 9 : 0; }
int nvmlInitWithFlags(unsigned flags) { return nvmlInit_v2(); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int status) { return status == NOT_SUPPORTED ? "Not Supported" : "simulated error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.65.06"); return 0; }
int nvmlSystemGetCudaDriverVersion(int *version) { *version = 13000; return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return 0; }
int nvmlDeviceGetCount_v2(unsigned *num) { struct gpu all[MAX_GPUS]; *num = list_gpus(all); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *found)
{
    unsigned num;
    nvmlDeviceGetCount_v2(&num);
    *found = (handle)(long)(index + 1);
    return index < num ? 0 : NOT_FOUND;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, handle *found) { return NOT_FOUND; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, handle *found)
{
    int index = -1;
    sscanf(bus, "%*x:%x:", &index);
    return nvmlDeviceGetHandleByIndex_v2(index > 0 ? index - 1 : 0, found); /* PyTorch asks for bus 0 */
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle given, handle *whole) { return NOT_SUPPORTED; }
int nvmlDeviceGetAttributes_v2(handle given, unsigned *attributes) { return NOT_SUPPORTED; }
int nvmlDeviceGetName(handle given, char *text, unsigned size)
{
    snprintf(text, size, "%s", gpu_of(given).name);
    return 0;
}
int nvmlDeviceGetUUID(handle given, char *text, unsigned size)
{
    snprintf(text, size, "%s", gpu_of(given).uuid);
    return 0;
}
int nvmlDeviceGetCudaComputeCapability(handle given, int *major, int *minor)
{
    *major = gpu_of(given).major;
    *minor = gpu_of(given).minor;
    return 0;
}
int nvmlDeviceGetMemoryInfo(handle given, struct memory *found)
{
    found->total = gpu_of(given).bytes;
    found->used = 600ull << 20;
    found->free = found->total - found->used;
    return 0;
}
int nvmlDeviceGetUtilizationRates(handle given, unsigned *rates)
{
    rates[0] = number("SIMULATED_UTILIZATION", 0);
    rates[1] = 0;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(handle given, unsigned *num, struct process *found)
{
    char text[1024], *rest = NULL;
    unsigned room = *num, index, pid, mib;
    snprintf(text, sizeof text, "%s", getenv("SIMULATED_PROCESSES") ? getenv("SIMULATED_PROCESSES") : "");
    *num = 0;
    for (char *word = strtok_r(text, ";", &rest); word; word = strtok_r(NULL, ";", &rest)) {
        if (sscanf(word, "%u:%u:%u", &index, &pid, &mib) < 3 || index + 1 != (unsigned)(long)given)
            continue;
        if (*num < room)
            found[*num] = (struct process){pid, (unsigned long long)mib << 20, 0, 0};
        ++*num;
    }
    return *num > room ? TOO_SMALL : 0;
}
int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(name, size, file))
        return NOT_FOUND;
    name[strcspn(name, "\n")] = 0;
    return fclose(file);
}
int nvmlDeviceGetPowerUsage(handle given, unsigned *milliwatts) { *milliwatts = WATTS * 1000; return 0; }
int nvmlDeviceGetTotalEnergyConsumption(handle given, unsigned long long *millijoules)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *millijoules = (now.tv_sec * 1e3 + now.tv_nsec * 1e-6) * WATTS;
    return 0;
}
int nvmlDeviceGetTemperature(handle given, int sensor, unsigned *celsius) { *celsius = 45; return 0; }
int nvmlDeviceGetClockInfo(handle given, int clock, unsigned *mhz) { *mhz = 1980; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(handle given, unsigned long long *reasons) { *reasons = 4; return 0; }
/* What PyTorch asks for when memory runs out. */
int nvmlDeviceGetNvLinkRemoteDeviceType(handle given, unsigned link, int *kind) { return NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(handle given, unsigned link, void *pci) { return NOT_SUPPORTED; }
int nvmlDeviceGetComputeRunningProcesses(handle given, unsigned *num, void *found) { *num = 0; return 0; }
