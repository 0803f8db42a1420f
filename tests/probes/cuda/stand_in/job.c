/*
 * A job that calls CUDA in the ways that matter and knows how often. Reads a word and up to four
 * numbers a line, answers each line with what it did.
 *
 *   gcc -O2 -pthread -o job job.c libcudart.so.12 libcuda.so.1
 *
 *   load SECONDS LAUNCHES SYNCS THREADS   so many a second in each thread, evenly; exactly SECONDS *
 *                                         LAUNCHES launches and SECONDS * SYNCS synchronises in all
 *   copies COUNT BYTES KIND               cudaMemcpy; KIND as cudaMemcpyKind
 *   async COUNT BYTES KIND                cudaMemcpyAsync
 *   sync COUNT MICROSECONDS               cudaStreamSynchronize that takes so long
 *   slow_copy MICROSECONDS BYTES KIND     one cudaMemcpy that takes so long
 *   every COUNT                           each function of the runtime that is probed, and some twins
 *   driver COUNT                          functions of the driver, without the runtime
 *   malloc COUNT BYTES                    kept
 *   free COUNT                            the ones allocated last
 *   churn COUNT BYTES                     malloc and free in turn
 *   pool COUNT BYTES                      cudaMallocAsync, kept
 *   host COUNT BYTES                      cudaMallocHost, kept
 *   fail COUNT                            cudaMalloc of nothing: cudaErrorInvalidValue
 *   threads COUNT CALLS                   so many threads, each CALLS synchronises of 1 ms
 *   fork CALLS                            a child that makes CALLS synchronises and 10 MiB, then waits
 *   exec                                  this program again, in this process
 *   hang                                  a thread in a synchronise that does not return
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "stand_in.h"
#include "calls.h"

enum { KEPT = 1 << 14, TICKS_PER_SECOND = 100 };
static void *kept[KEPT];
static int held;
static char function[1];

static void pause_until(struct timespec *next, long nanoseconds)
{
	next->tv_nsec += nanoseconds;
	while (next->tv_nsec >= 1000000000L) {
		next->tv_nsec -= 1000000000L;
		next->tv_sec += 1;
	}
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
}

struct load { long seconds, launches, syncs; };

/* A tick every 10 ms, each with its share: no loop spins, and the totals are exact. */
static void *work(void *given)
{
	struct load *load = given;
	struct timespec next;
	long ticks = load->seconds * TICKS_PER_SECOND, launched = 0, synced = 0, tick;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (tick = 1; tick <= ticks; tick++) {
		for (; launched < tick * load->launches / TICKS_PER_SECOND; launched++)
			cudaLaunchKernel(function, (dim3){1, 1, 1}, (dim3){32, 1, 1}, NULL, 0, NULL);
		for (; synced < tick * load->syncs / TICKS_PER_SECOND; synced++)
			cudaStreamSynchronize(NULL);
		pause_until(&next, 1000000000L / TICKS_PER_SECOND);
	}
	return NULL;
}

static void *synchronise(void *given)
{
	for (long i = 0; i < (long)given; i++)
		cudaStreamSynchronize(NULL);
	return NULL;
}

static void in_threads(long count, void *(*run)(void *), void *given)
{
	pthread_t threads[256];
	long i;

	for (i = 0; i < count && i < 256; i++)
		pthread_create(&threads[i], NULL, run, given);
	while (i-- > 0)
		pthread_join(threads[i], NULL);
}

static void keep(int (*allocate)(void **, size_t), long count, size_t bytes)
{
	while (count-- > 0 && held < KEPT)
		if (!allocate(&kept[held], bytes))
			held++;
}

static int from_pool(void **pointer, size_t bytes) { return cudaMallocAsync(pointer, bytes, NULL); }

/* The runtime once each, 4,096 bytes a copy and an allocation; nothing is held afterwards. */
static void every_runtime_call(void)
{
	dim3 one = {1, 1, 1};
	void *p;

	cudaMalloc(&p, 4096), cudaFree(p);
	cudaMallocManaged(&p, 4096, 1), cudaFree(p);
	cudaMallocAsync(&p, 4096, NULL), cudaFreeAsync(p, NULL);
	cudaMallocAsync_ptsz(&p, 4096, NULL), cudaFreeAsync_ptsz(p, NULL);
	cudaMallocHost(&p, 4096), cudaFreeHost(p);
	cudaHostAlloc(&p, 4096, 0), cudaFreeHost(p);
	cudaDeviceSynchronize(), cudaThreadSynchronize(), cudaEventSynchronize(NULL);
	cudaStreamSynchronize(NULL), cudaStreamSynchronize_ptsz(NULL);
	cudaMemcpy(function, function, 4096, 1), cudaMemcpy_ptds(function, function, 4096, 2);
	cudaMemcpyAsync(function, function, 4096, 3, NULL);
	cudaMemcpyAsync_ptsz(function, function, 4096, 4, NULL);
	cudaMemcpy2D(function, 128, function, 128, 64, 64, 1);
	cudaMemcpy2DAsync(function, 128, function, 128, 64, 64, 2, NULL);
	cudaMemcpyPeer(function, 1, function, 0, 4096);
	cudaMemcpyPeerAsync(function, 1, function, 0, 4096, NULL);
	cudaLaunchKernel(function, one, one, NULL, 0, NULL);
	cudaLaunchKernel_ptsz(function, one, one, NULL, 0, NULL);
	cudaLaunchKernelExC(function, function, NULL);
	cudaLaunchCooperativeKernel(function, one, one, NULL, 0, NULL);
	cudaGraphLaunch(function, NULL);
}

/* The driver without the runtime, as NCCL and Triton use it. */
static void every_driver_call(void)
{
	CUdeviceptr p;

	cuMemAlloc_v2(&p, 4096), cuMemFree_v2(p);
	cuMemCreate(&p, 4096, function, 0), cuMemRelease(p);
	cuCtxSynchronize(), cuStreamSynchronize(NULL), cuStreamSynchronize_ptsz(NULL);
	cuMemcpyHtoD_v2((CUdeviceptr)function, function, 4096);
	cuMemcpyDtoH_v2(function, (CUdeviceptr)function, 4096);
	cuMemcpyDtoDAsync_v2((CUdeviceptr)function, (CUdeviceptr)function, 4096, NULL);
	cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	cuLaunchKernel_ptsz(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	cuLaunchKernelEx(function, function, NULL, NULL);
	cuGraphLaunch(function, NULL);
}

int main(int count, char **arguments)
{
	char line[256], word[32];
	long a, b, c, d;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		a = b = c = d = 0;
		if (sscanf(line, "%31s %ld %ld %ld %ld", word, &a, &b, &c, &d) < 1)
			continue;
		stand_in_sync_us(0);
		stand_in_copy_us(0);
		if (!strcmp(word, "load")) {
			struct load load = {a, b, c};
			in_threads(d ? d : 1, work, &load);
		} else if (!strcmp(word, "copies")) {
			while (a-- > 0)
				cudaMemcpy(function, function, b, c);
		} else if (!strcmp(word, "async")) {
			while (a-- > 0)
				cudaMemcpyAsync(function, function, b, c, NULL);
		} else if (!strcmp(word, "sync")) {
			stand_in_sync_us(b);
			synchronise((void *)a);
		} else if (!strcmp(word, "slow_copy")) {
			stand_in_copy_us(a);
			cudaMemcpy(function, function, b, c);
		} else if (!strcmp(word, "every")) {
			while (a-- > 0)
				every_runtime_call();
		} else if (!strcmp(word, "driver")) {
			while (a-- > 0)
				every_driver_call();
		} else if (!strcmp(word, "malloc")) {
			keep(cudaMalloc, a, b);
		} else if (!strcmp(word, "pool")) {
			keep(from_pool, a, b);
		} else if (!strcmp(word, "host")) {
			keep(cudaMallocHost, a, b);
		} else if (!strcmp(word, "free")) {
			while (a-- > 0 && held > 0)
				cudaFree(kept[--held]);
		} else if (!strcmp(word, "churn")) {
			for (void *pointer; a-- > 0; cudaFree(pointer))
				cudaMalloc(&pointer, b);
		} else if (!strcmp(word, "fail")) {
			for (void *pointer; a-- > 0;)
				cudaMalloc(&pointer, 0);
		} else if (!strcmp(word, "threads")) {
			stand_in_sync_us(1000);
			in_threads(a, synchronise, (void *)b);
		} else if (!strcmp(word, "fork")) {
			pid_t child = fork();
			if (!child) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				synchronise((void *)a);
				keep(cudaMalloc, 1, 10 << 20);
				for (;;)
					pause();
			}
			usleep(200000);
			printf("%d ", child);
		} else if (!strcmp(word, "exec")) {
			execv("/proc/self/exe", arguments);
		} else if (!strcmp(word, "hang")) {
			pthread_t thread;
			stand_in_sync_us(1 << 30);
			pthread_create(&thread, NULL, synchronise, (void *)1);
			usleep(50000);
		}
		printf("done\n");
	}
	return 0;
}
