/*
 * libnccl.so.2. See stand_in.h.
 *
 *   gcc -O2 -fno-optimize-sibling-calls -pthread -shared -fPIC -Wl,-soname,libnccl.so.2 -o libnccl.so.2 nccl.c -ldl
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stand_in.h"

enum { SUCCESS = 0, INVALID_ARGUMENT = 4, IN_PROGRESS = 7, MAX_QUEUE = 64, QUEUE = 4096 };
struct ncclComm { int rank, nranks; ncclResult_t async; void *context; };

static volatile int init_us, kernel_us;
static volatile ncclResult_t next_result;
static __thread int depth;
static __thread struct { ncclComm_t *out; int rank, nranks; } queued[MAX_QUEUE];
static __thread int queue_length;

void stand_in_init_us(int us) { init_us = us; }
void stand_in_kernel_us(int us) { kernel_us = us; }
void stand_in_result(ncclResult_t result) { next_result = result; }
void stand_in_async(ncclComm_t comm, ncclResult_t result) { comm->async = result; }

/* The profiler: tables of version 3 to 5 begin with a name and these five functions; init has more
 * arguments from version to version, so that it is called by version. */
struct table {
	const char *name;
	ncclResult_t (*init)();
	ncclResult_t (*start)(void *, void **, void *);
	ncclResult_t (*stop)(void *);
	ncclResult_t (*record)(void *, int, void *);
	ncclResult_t (*finalize)(void *);
};
/* Descriptors: the type has one byte up to version 4, eight from 5; a collective's name lies at 24 of
 * the part behind rank in version 3, at 8 in later ones. */
struct descriptor { uint64_t type; void *parent; int rank; int pad; uint64_t rest[12]; };
static struct table *profiler;
static int version;

static void load_profiler(void)
{
	static const char *names[] = {"ncclProfiler_v5", "ncclProfiler_v4", "ncclProfiler_v3"};
	const char *path = getenv("NCCL_PROFILER_PLUGIN");
	void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	int i;

	for (i = 0; library && i < 3 && !profiler; i++) {
		profiler = dlsym(library, names[i]);
		version = 5 - i;
	}
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct { ncclComm_t comm; void *parent; int us; } kernels[QUEUE];
static unsigned enqueued, done;

static void *run_kernels(void *unused)
{
	for (;;) {
		struct descriptor kernel = {.type = 64};
		void *handle = NULL;
		unsigned at;

		pthread_mutex_lock(&lock);
		while (done == enqueued)
			pthread_cond_wait(&changed, &lock);
		at = done % QUEUE;
		pthread_mutex_unlock(&lock);
		kernel.parent = kernels[at].parent;
		profiler->start(kernels[at].comm->context, &handle, &kernel);
		usleep(kernels[at].us);
		if (handle) {
			profiler->record(handle, 22, NULL);
			profiler->stop(handle);
		}
		pthread_mutex_lock(&lock);
		done++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

void stand_in_kernels_done(void)
{
	pthread_mutex_lock(&lock);
	while (done != enqueued)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void enqueue(ncclComm_t comm, const char *name)
{
	struct descriptor call = {.type = 2, .rank = comm->rank};
	void *handle = NULL;

	if (!profiler)
		return;
	if (!strcmp(name, "Send") || !strcmp(name, "Recv"))
		call.type = 4;
	call.rest[(version == 3 ? 3 : 1) - (call.type == 4)] = (uint64_t)name;
	profiler->start(comm->context, &handle, &call);
	pthread_mutex_lock(&lock);
	kernels[enqueued % QUEUE].comm = comm;
	kernels[enqueued % QUEUE].parent = handle;
	kernels[enqueued % QUEUE].us = kernel_us;
	enqueued++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	if (handle)
		profiler->stop(handle);
}

static ncclResult_t call(ncclComm_t comm, const char *name)
{
	if (!comm)
		return INVALID_ARGUMENT;
	if (next_result)
		return next_result;
	enqueue(comm, name);
	return SUCCESS;
}

static void make(ncclComm_t *out, int nranks, int rank)
{
	static bool begun;
	int mask = 0;
	pthread_t thread;

	*out = calloc(1, sizeof(**out));
	(*out)->rank = rank;
	(*out)->nranks = nranks;
	if (!begun) {
		begun = true;
		load_profiler();
		if (profiler)
			pthread_create(&thread, NULL, run_kernels, NULL);
	}
	if (profiler && version == 5)
		profiler->init(&(*out)->context, 1UL, &mask, "", 1, nranks, rank, NULL);
	else if (profiler && version == 4)
		profiler->init(&(*out)->context, &mask, "", 1UL, 1, nranks, rank, NULL);
	else if (profiler)
		profiler->init(&(*out)->context, &mask);
}

static ncclResult_t begin(ncclComm_t *out, int nranks, int rank, ncclConfig_t *config)
{
	if (nranks < 1 || rank >= nranks)
		return INVALID_ARGUMENT;
	if (depth) {
		queued[queue_length].out = out;
		queued[queue_length].nranks = nranks;
		queued[queue_length++].rank = rank;
		return SUCCESS;
	}
	if (config && !config->blocking) {
		make(out, nranks, rank);
		(*out)->async = IN_PROGRESS;
		return IN_PROGRESS;
	}
	usleep(init_us);
	if (!next_result)
		make(out, nranks, rank);
	return next_result;
}

#define NCCL(name, ...)                                                                             \
	ncclResult_t nccl##name(__VA_ARGS__) __attribute__((weak, alias("pnccl" #name)));            \
	ncclResult_t pnccl##name(__VA_ARGS__)

NCCL(CommInitRank, ncclComm_t *out, int nranks, ncclUniqueId id, int rank)
{
	return begin(out, nranks, rank, NULL);
}
NCCL(CommInitRankConfig, ncclComm_t *out, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
	return begin(out, nranks, rank, config);
}
NCCL(CommInitRankScalable, ncclComm_t *out, int nranks, int rank, int ids, ncclUniqueId *id, ncclConfig_t *config)
{
	return begin(out, nranks, rank, config);
}
/* The real one uses a group, too, through its exported functions. */
NCCL(CommInitAll, ncclComm_t *out, int devices, const int *list)
{
	int i;

	ncclGroupStart();
	for (i = 0; i < devices; i++)
		begin(out + i, devices, i, NULL);
	return ncclGroupEnd();
}
NCCL(CommSplit, ncclComm_t parent, int colour, int key, ncclComm_t *out, ncclConfig_t *config)
{
	usleep(init_us);
	if (colour == -1)
		*out = NULL;
	else if (!next_result)
		make(out, (parent->nranks + 1) / 2, parent->rank / 2);
	return next_result;
}
NCCL(CommShrink, ncclComm_t parent, int *list, int count, ncclComm_t *out, ncclConfig_t *config, int flags)
{
	return begin(out, parent->nranks - count, 0, config);
}
NCCL(CommGrow, ncclComm_t parent, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *out, ncclConfig_t *config)
{
	return begin(out, nranks, rank < 0 ? parent->rank : rank, config);
}
static ncclResult_t release(ncclComm_t comm)
{
	if (!comm)
		return INVALID_ARGUMENT;
	if (profiler)
		profiler->finalize(comm->context);
	/* Kept: kernels may still look at it. */
	return SUCCESS;
}
NCCL(CommFinalize, ncclComm_t comm) { return comm ? SUCCESS : INVALID_ARGUMENT; }
NCCL(CommDestroy, ncclComm_t comm) { return release(comm); }
NCCL(CommAbort, ncclComm_t comm) { return release(comm); }
NCCL(CommRevoke, ncclComm_t comm, int flags) { return comm ? SUCCESS : flags; }
NCCL(CommGetAsyncError, ncclComm_t comm, ncclResult_t *result) { *result = comm->async; return SUCCESS; }
NCCL(CommCount, ncclComm_t comm, int *count) { *count = comm->nranks; return SUCCESS; }
NCCL(CommUserRank, ncclComm_t comm, int *rank) { *rank = comm->rank; return SUCCESS; }
NCCL(GroupStart, void) { depth++; return SUCCESS; }
NCCL(GroupEnd, void)
{
	int i;

	if (!depth)
		return 5;
	if (--depth)
		return SUCCESS;
	usleep(queue_length ? init_us : 0);
	for (i = 0; i < queue_length && !next_result; i++)
		make(queued[i].out, queued[i].nranks, queued[i].rank);
	queue_length = 0;
	return next_result;
}

#define MOVE(name, ...) NCCL(name, const void *from, void *to, size_t count, ncclDataType_t type, ##__VA_ARGS__, ncclComm_t comm, cudaStream_t stream)
MOVE(AllReduce, ncclRedOp_t op) { return call(comm, "AllReduce"); }
NCCL(AllReduceConfig, const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const void *config)
{
	return call(comm, "AllReduce") + 0 * (config != NULL);
}
MOVE(AllGather) { return call(comm, "AllGather"); }
MOVE(ReduceScatter, ncclRedOp_t op) { return call(comm, "ReduceScatter"); }
MOVE(Broadcast, int root) { return call(comm, "Broadcast"); }
MOVE(Reduce, ncclRedOp_t op, int root) { return call(comm, "Reduce"); }
MOVE(AlltoAll) { return call(comm, "AlltoAll"); }
MOVE(Gather, int root) { return call(comm, "Gather"); }
MOVE(Scatter, int root) { return call(comm, "Scatter"); }
NCCL(Bcast, void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
{
	return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
NCCL(Send, const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) { return call(comm, "Send"); }
NCCL(Recv, void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) { return call(comm, "Recv"); }
