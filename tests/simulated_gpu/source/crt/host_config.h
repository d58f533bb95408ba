/* Nothing: see host_defines.h. */
