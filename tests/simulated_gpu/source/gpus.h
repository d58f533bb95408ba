/* The simulated GPUs, as SIMULATED_GPUS lists them in the order of the PCI bus: NAME:CAPABILITY:MIB, joined by ";".
   SIMULATED_PROCESSES has those of other programs that use them: INDEX:PID:MIB, joined by ";". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GPUS 8

struct gpu { char name[64], uuid[64]; int index, major, minor; size_t bytes; };

static inline int list_gpus(struct gpu *found)
{
    char text[1024], *rest = NULL;
    const char *given = getenv("SIMULATED_GPUS");
    int num = 0;
    snprintf(text, sizeof text, "%s", given ? given : "NVIDIA H200:9.0:4000");
    for (char *word = strtok_r(text, ";", &rest); word && num < MAX_GPUS; word = strtok_r(NULL, ";", &rest)) {
        struct gpu *gpu = &found[num];
        int mib = 0;
        sscanf(word, "%63[^:]:%d.%d:%d", gpu->name, &gpu->major, &gpu->minor, &mib);
        snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%08x-0000-0000-0000-000000000000", num + 0xa0);
        gpu->index = num++;
        gpu->bytes = (size_t)mib << 20;
    }
    return num;
}

