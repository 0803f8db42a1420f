/* What the job uses of the runtime, declared as cuda_runtime_api.h does. */
typedef int cudaError_t;
typedef struct { unsigned x, y, z; } dim3;
typedef CUstream cudaStream_t;

cudaError_t cudaMalloc(void **, size_t), cudaMallocManaged(void **, size_t, unsigned);
cudaError_t cudaMallocHost(void **, size_t), cudaHostAlloc(void **, size_t, unsigned);
cudaError_t cudaMallocAsync(void **, size_t, cudaStream_t), cudaMallocAsync_ptsz(void **, size_t, cudaStream_t);
cudaError_t cudaFree(void *), cudaFreeHost(void *);
cudaError_t cudaFreeAsync(void *, cudaStream_t), cudaFreeAsync_ptsz(void *, cudaStream_t);
cudaError_t cudaDeviceSynchronize(void), cudaThreadSynchronize(void), cudaEventSynchronize(void *);
cudaError_t cudaStreamSynchronize(cudaStream_t), cudaStreamSynchronize_ptsz(cudaStream_t);
cudaError_t cudaMemcpy(void *, const void *, size_t, int), cudaMemcpy_ptds(void *, const void *, size_t, int);
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, int, cudaStream_t);
cudaError_t cudaMemcpyAsync_ptsz(void *, const void *, size_t, int, cudaStream_t);
cudaError_t cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
cudaError_t cudaMemcpy2DAsync(void *, size_t, const void *, size_t, size_t, size_t, int, cudaStream_t);
cudaError_t cudaMemcpyPeer(void *, int, const void *, int, size_t);
cudaError_t cudaMemcpyPeerAsync(void *, int, const void *, int, size_t, cudaStream_t);
cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
cudaError_t cudaLaunchKernel_ptsz(const void *, dim3, dim3, void **, size_t, cudaStream_t);
cudaError_t cudaLaunchKernelExC(const void *, const void *, void **);
cudaError_t cudaLaunchCooperativeKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
cudaError_t cudaGraphLaunch(void *, cudaStream_t);

CUresult cuMemAlloc_v2(CUdeviceptr *, size_t), cuMemFree_v2(CUdeviceptr);
CUresult cuMemCreate(CUdeviceptr *, size_t, const void *, unsigned long long), cuMemRelease(CUdeviceptr);
CUresult cuCtxSynchronize(void), cuStreamSynchronize(CUstream), cuStreamSynchronize_ptsz(CUstream);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t), cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
CUresult cuLaunchKernel_ptsz(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
CUresult cuLaunchKernelEx(const void *, void *, void **, void **);
CUresult cuGraphLaunch(void *, CUstream);
