/* CUDA's own has this name, and comes with its compiler. These macros are all that its other headers need of it. */
#ifndef HOST_DEFINES_H
#define HOST_DEFINES_H
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDA_CB
#define __host__
#define __device__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __specialization_static static
#endif
