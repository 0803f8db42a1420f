/*
 * libcuda.so.1, the driver API. See stand_in.h.
 *
 *   gcc -O2 -shared -fPIC -Wl,-soname,libcuda.so.1 -o libcuda.so.1 cuda.c
 */
#include <pthread.h>
#include <unistd.h>

#include "stand_in.h"

static volatile int sync_us, copy_us;
static volatile int sink;

void stand_in_sync_us(int microseconds) { sync_us = microseconds; }
void stand_in_copy_us(int microseconds) { copy_us = microseconds; }

/* Addresses as CUDA hands them out: above 0x7f0000000000, 512-byte aligned; the lowest free ones are
 * given out again, so that a pointer comes back after a free. */
enum { SLOTS = 1 << 16 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { size_t bytes; } taken[SLOTS];
static size_t held;
static int hint;

static CUresult allocate(CUdeviceptr *pointer, size_t bytes)
{
	CUresult result = OUT_OF_MEMORY;
	int i;

	if (!pointer || !bytes)
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	for (i = hint; i < SLOTS && held + bytes <= DEVICE_BYTES; i++) {
		if (taken[i].bytes)
			continue;
		taken[i].bytes = bytes;
		held += bytes;
		hint = i + 1;
		*pointer = 0x7f0000000000ULL + ((CUdeviceptr)i << 9);
		result = SUCCESS;
		break;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult release(CUdeviceptr pointer)
{
	unsigned long long i = (pointer - 0x7f0000000000ULL) >> 9;
	CUresult result = INVALID_VALUE;

	if (!pointer)
		return SUCCESS;
	pthread_mutex_lock(&lock);
	if (i < SLOTS && taken[i].bytes) {
		held -= taken[i].bytes;
		taken[i].bytes = 0;
		if ((int)i < hint)
			hint = i;
		result = SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult wait_us(int microseconds)
{
	if (microseconds)
		usleep(microseconds);
	sink += 1;
	return SUCCESS;
}

/* A null destination is what the real driver answers with CUDA_ERROR_INVALID_VALUE. */
static CUresult copy(CUdeviceptr to) { return to ? wait_us(copy_us) : INVALID_VALUE; }
static CUresult enqueue(CUdeviceptr to)
{
	sink += 1;
	return to ? SUCCESS : INVALID_VALUE;
}

/* (CUstream)-1 is no stream. */
static CUresult synchronize(CUstream stream)
{
	return stream == (CUstream)-1 ? INVALID_HANDLE : wait_us(sync_us);
}

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) { return allocate(p, n); }
CUresult cuMemAllocManaged(CUdeviceptr *p, size_t n, unsigned flags) { return flags ? allocate(p, n) : INVALID_VALUE; }
CUresult cuMemAllocHost_v2(void **p, size_t n) { return allocate((CUdeviceptr *)p, n); }
CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags) { return flags > 15 ? INVALID_VALUE : allocate((CUdeviceptr *)p, n); }
CUresult cuMemFree_v2(CUdeviceptr p) { return release(p); }
CUresult cuMemFreeHost(void *p) { return release((CUdeviceptr)p); }
CUresult cuMemCreate(CUdeviceptr *handle, size_t n, const void *properties, unsigned long long flags)
{
	return properties && !flags ? allocate(handle, n) : INVALID_VALUE;
}
CUresult cuMemRelease(CUdeviceptr handle) { return release(handle); }
CUresult cuCtxSynchronize(void) { return wait_us(sync_us); }
CUresult cuEventSynchronize(void *event) { return synchronize(event); }
CUresult cuMemcpyPeer(CUdeviceptr to, void *to_context, CUdeviceptr from, void *from_context, size_t n) { return copy(to + 0 * n); }

/* Every function that takes a stream, explicit or not, and its twin. */
#define TWINS(suffix)                                                                               \
	CUresult cuStreamSynchronize##suffix(CUstream s) { return synchronize(s); }                  \
	CUresult cuMemAllocAsync##suffix(CUdeviceptr *p, size_t n, CUstream s) { return allocate(p, n); } \
	CUresult cuMemAllocFromPoolAsync##suffix(CUdeviceptr *p, size_t n, void *pool, CUstream s) { return allocate(p, n); } \
	CUresult cuMemFreeAsync##suffix(CUdeviceptr p, CUstream s) { return release(p); }            \
	CUresult cuMemcpyAsync##suffix(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) { return enqueue(to); } \
	CUresult cuMemcpyPeerAsync##suffix(CUdeviceptr to, void *tc, CUdeviceptr from, void *fc, size_t n, CUstream s) { return enqueue(to); } \
	CUresult cuLaunchKernel##suffix(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,  \
		unsigned by, unsigned bz, unsigned shared, CUstream s, void **args, void **extra)     \
	{ return enqueue((CUdeviceptr)f); }                                                          \
	CUresult cuLaunchKernelEx##suffix(const void *config, void *f, void **args, void **extra)    \
	{ return enqueue((CUdeviceptr)f); }                                                          \
	CUresult cuLaunchCooperativeKernel##suffix(void *f, unsigned gx, unsigned gy, unsigned gz,   \
		unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **args)      \
	{ return enqueue((CUdeviceptr)f); }                                                          \
	CUresult cuGraphLaunch##suffix(void *graph, CUstream s) { return enqueue((CUdeviceptr)graph); }
TWINS()
TWINS(_ptsz)

/* Blocking and not, towards the device, from it, within it; bytes are the third argument. */
#define COPIES(blocking, async)                                                                     \
	CUresult cuMemcpy##blocking(CUdeviceptr to, CUdeviceptr from, size_t n) { return copy(to); } \
	CUresult cuMemcpyHtoD_v2##blocking(CUdeviceptr to, const void *from, size_t n) { return copy(to); } \
	CUresult cuMemcpyDtoH_v2##blocking(void *to, CUdeviceptr from, size_t n) { return copy((CUdeviceptr)to); } \
	CUresult cuMemcpyDtoD_v2##blocking(CUdeviceptr to, CUdeviceptr from, size_t n) { return copy(to); } \
	CUresult cuMemcpyHtoDAsync_v2##async(CUdeviceptr to, const void *from, size_t n, CUstream s) { return enqueue(to); } \
	CUresult cuMemcpyDtoHAsync_v2##async(void *to, CUdeviceptr from, size_t n, CUstream s) { return enqueue((CUdeviceptr)to); } \
	CUresult cuMemcpyDtoDAsync_v2##async(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) { return enqueue(to); }
COPIES(, )
COPIES(_ptds, _ptsz)
