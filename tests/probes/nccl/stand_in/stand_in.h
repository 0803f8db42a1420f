/*
 * A stand-in for libnccl.so.2: NVIDIA's symbols with NVIDIA's signatures, weak aliases over pnccl
 * included, and no GPU behind them. A collective only takes note; with a profiler plugin, "kernels"
 * of a given length run one after another in a thread.
 */
#include <stddef.h>
#include <stdint.h>

typedef struct ncclComm *ncclComm_t;
typedef struct { char internal[128]; } ncclUniqueId;
typedef int ncclResult_t;
typedef int ncclDataType_t;
typedef int ncclRedOp_t;
typedef void *cudaStream_t;
/* The head of ncclConfig_t, as far as it is read here. */
typedef struct { size_t size; unsigned magic, version; int blocking; } ncclConfig_t;

#define SAY(name, ...) ncclResult_t pnccl##name(__VA_ARGS__); ncclResult_t nccl##name(__VA_ARGS__)

SAY(CommInitRank, ncclComm_t *, int, ncclUniqueId, int);
SAY(CommInitRankConfig, ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
SAY(CommInitRankScalable, ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *);
SAY(CommInitAll, ncclComm_t *, int, const int *);
SAY(CommSplit, ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
SAY(CommShrink, ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int);
SAY(CommGrow, ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, ncclConfig_t *);
SAY(CommFinalize, ncclComm_t);
SAY(CommDestroy, ncclComm_t);
SAY(CommAbort, ncclComm_t);
SAY(CommRevoke, ncclComm_t, int);
SAY(CommGetAsyncError, ncclComm_t, ncclResult_t *);
SAY(CommCount, ncclComm_t, int *);
SAY(CommUserRank, ncclComm_t, int *);
SAY(GroupStart, void);
SAY(GroupEnd, void);
SAY(AllReduce, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
SAY(AllReduceConfig, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t, const void *);
SAY(AllGather, const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
SAY(ReduceScatter, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
SAY(Broadcast, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
SAY(Bcast, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
SAY(Reduce, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t);
SAY(AlltoAll, const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
SAY(Gather, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
SAY(Scatter, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
SAY(Send, const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
SAY(Recv, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);

/* What the job tells the stand-in: microseconds of an initialisation and of a kernel, the result of
 * the calls to come, what a communicator says of itself when asked. */
void stand_in_init_us(int), stand_in_kernel_us(int), stand_in_result(ncclResult_t);
void stand_in_async(ncclComm_t, ncclResult_t);
/* Blocks until the kernels that were enqueued have run. */
void stand_in_kernels_done(void);
