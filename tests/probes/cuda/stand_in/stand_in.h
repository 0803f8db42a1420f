/*
 * Stand-ins for libcuda.so.1 and libcudart.so.12: NVIDIA's symbols with NVIDIA's signatures, and no
 * GPU behind them. Device pointers are numbers, copies move nothing, and synchronising sleeps for as
 * long as it was told to. As in the real libraries the runtime calls the driver, and each function
 * that takes a stream has a twin for the per-thread default stream (_ptsz, _ptds) at an address of
 * its own.
 */
#include <stddef.h>

typedef unsigned long long CUdeviceptr;
typedef void *CUstream;
typedef int CUresult;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_HANDLE = 400 };

/* What the job tells the stand-ins: how long a synchronise and a copy take, in microseconds. */
void stand_in_sync_us(int microseconds);
void stand_in_copy_us(int microseconds);
/* The bytes of a device; an allocation that would go beyond fails as on a full GPU. */
#define DEVICE_BYTES (80ULL << 30)
