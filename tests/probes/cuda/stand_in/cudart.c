/*
 * libcudart.so.12, the runtime API, over the stand-in for the driver. See stand_in.h.
 *
 *   gcc -O2 -fno-optimize-sibling-calls -shared -fPIC -Wl,-soname,libcudart.so.12 -o libcudart.so.12 cudart.c libcuda.so.1
 */
#include "stand_in.h"

typedef int cudaError_t;
typedef struct { unsigned x, y, z; } dim3;
enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS };

CUresult cuMemAlloc_v2(CUdeviceptr *, size_t), cuMemAllocManaged(CUdeviceptr *, size_t, unsigned);
CUresult cuMemHostAlloc(void **, size_t, unsigned), cuMemFree_v2(CUdeviceptr), cuMemFreeHost(void *);
CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream), cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, void *, CUstream);
CUresult cuCtxSynchronize(void), cuEventSynchronize(void *), cuStreamSynchronize(CUstream);
CUresult cuMemcpy(CUdeviceptr, CUdeviceptr, size_t), cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t), cuMemcpyDtoD_v2(CUdeviceptr, CUdeviceptr, size_t);
CUresult cuMemcpyAsync(CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult cuMemcpyPeer(CUdeviceptr, void *, CUdeviceptr, void *, size_t);
CUresult cuMemcpyPeerAsync(CUdeviceptr, void *, CUdeviceptr, void *, size_t, CUstream);
CUresult cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
CUresult cuLaunchKernelEx(const void *, void *, void **, void **);
CUresult cuLaunchCooperativeKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **);
CUresult cuGraphLaunch(void *, CUstream);

/* The runtime translates the driver's numbers; those used here are the same. Not a tail call: in the
 * real library every one of these functions returns by itself. */
static cudaError_t told(CUresult result) { return result; }

static cudaError_t copy(void *to, const void *from, size_t n, int kind)
{
	CUdeviceptr d = (CUdeviceptr)to, s = (CUdeviceptr)from;

	switch (kind) {
	case HOST_TO_HOST: return to ? SUCCESS : INVALID_VALUE;
	case HOST_TO_DEVICE: return told(cuMemcpyHtoD_v2(d, from, n));
	case DEVICE_TO_HOST: return told(cuMemcpyDtoH_v2(to, s, n));
	case DEVICE_TO_DEVICE: return told(cuMemcpyDtoD_v2(d, s, n));
	case BY_ADDRESS: return told(cuMemcpy(d, s, n));
	}
	return 21; /* cudaErrorInvalidMemcpyDirection */
}

static cudaError_t enqueue(void *to, const void *from, size_t n, int kind, CUstream s)
{
	if (kind < HOST_TO_HOST || kind > BY_ADDRESS)
		return 21;
	return told(cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, n, s));
}

cudaError_t cudaMalloc(void **p, size_t n) { return told(cuMemAlloc_v2((CUdeviceptr *)p, n)); }
cudaError_t cudaMallocManaged(void **p, size_t n, unsigned flags) { return told(cuMemAllocManaged((CUdeviceptr *)p, n, flags)); }
cudaError_t cudaMallocHost(void **p, size_t n) { return told(cuMemHostAlloc(p, n, 0)); }
cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags) { return told(cuMemHostAlloc(p, n, flags)); }
cudaError_t cudaFree(void *p) { return told(cuMemFree_v2((CUdeviceptr)p)); }
cudaError_t cudaFreeHost(void *p) { return told(cuMemFreeHost(p)); }
cudaError_t cudaDeviceSynchronize(void) { return told(cuCtxSynchronize()); }
/* Deprecated and the very same function: one address under two names. */
cudaError_t cudaThreadSynchronize(void) __attribute__((alias("cudaDeviceSynchronize")));
cudaError_t cudaEventSynchronize(void *event) { return told(cuEventSynchronize(event)); }
cudaError_t cudaMemcpyPeer(void *to, int td, const void *from, int fd, size_t n)
{
	return told(cuMemcpyPeer((CUdeviceptr)to, 0, (CUdeviceptr)from, 0, n));
}

#define TWINS(blocking, async)                                                                      \
	cudaError_t cudaMemcpy##blocking(void *to, const void *from, size_t n, int kind) { return copy(to, from, n, kind); } \
	cudaError_t cudaMemcpy2D##blocking(void *to, size_t tp, const void *from, size_t fp, size_t width, size_t height, int kind) \
	{ return copy(to, from, width * height, kind); }                                             \
	cudaError_t cudaMemcpyAsync##async(void *to, const void *from, size_t n, int kind, CUstream s) { return enqueue(to, from, n, kind, s); } \
	cudaError_t cudaMemcpy2DAsync##async(void *to, size_t tp, const void *from, size_t fp, size_t width, size_t height, int kind, CUstream s) \
	{ return enqueue(to, from, width * height, kind, s); }                                       \
	cudaError_t cudaStreamSynchronize##async(CUstream s) { return told(cuStreamSynchronize(s)); } \
	cudaError_t cudaMallocAsync##async(void **p, size_t n, CUstream s) { return told(cuMemAllocAsync((CUdeviceptr *)p, n, s)); } \
	cudaError_t cudaMallocFromPoolAsync##async(void **p, size_t n, void *pool, CUstream s) { return told(cuMemAllocFromPoolAsync((CUdeviceptr *)p, n, pool, s)); } \
	cudaError_t cudaFreeAsync##async(void *p, CUstream s) { return told(cuMemFreeAsync((CUdeviceptr)p, s)); } \
	cudaError_t cudaLaunchKernel##async(const void *f, dim3 grid, dim3 block, void **args, size_t shared, CUstream s) \
	{ return told(cuLaunchKernel((void *)f, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, s, args, 0)); } \
	cudaError_t cudaLaunchKernelExC##async(const void *config, const void *f, void **args)       \
	{ return told(cuLaunchKernelEx(config, (void *)f, args, 0)); }                               \
	cudaError_t cudaLaunchCooperativeKernel##async(const void *f, dim3 grid, dim3 block, void **args, size_t shared, CUstream s) \
	{ return told(cuLaunchCooperativeKernel((void *)f, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, s, args)); } \
	cudaError_t cudaGraphLaunch##async(void *graph, CUstream s) { return told(cuGraphLaunch(graph, s)); }
TWINS(, )
TWINS(_ptds, _ptsz)

cudaError_t cudaMemcpyPeerAsync(void *to, int td, const void *from, int fd, size_t n, CUstream s)
{
	return told(cuMemcpyPeerAsync((CUdeviceptr)to, 0, (CUdeviceptr)from, 0, n, s));
}
